package client

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// TestPredictionHasColumns: each column of predictions is a field, without a value
// exactly if the answer has none.
func TestPredictionHasColumns(t *testing.T) {
	full := codec.Prediction{Stream: "s", Seq: 1, Row: 2, Time: 3, Readout: "r", Answer: outcome.Answer{
		Class: 1, Score: .5, Probability: .6, Scores: []float32{.5}, Set: []int32{1, 0}, Novelty: 1.5, NoveltyP: .4,
		Inputs: []float32{1}, Change: .3, Number: outcome.Number{Value: 7, Low: 6, High: 8, Known: true}, Flags: outcome.FlagGap,
	}}
	bare := codec.Prediction{Stream: "s", Seq: 1, Row: 2, Time: codec.NoTime, Answer: outcome.Answer{Class: 1, Score: .5, Flags: outcome.FlagGap}}
	o := &consumer.Output{Seq: 9, Stored: time.Unix(1, 0), Meta: codec.PredictionMeta{Labels: []string{"a", "b"}}, Predictions: []codec.Prediction{full, bare}}
	all, few := reflect.ValueOf(predictionOf(o, 0)), reflect.ValueOf(predictionOf(o, 1))
	for _, c := range outcome.Columns {
		name := ""
		for word := range strings.SplitSeq(c.Name, "_") {
			name += strings.ToUpper(word[:1]) + word[1:]
		}
		if all.FieldByName(name).IsZero() {
			t.Errorf("%s has no value", name)
		}
		if !few.FieldByName(name).IsZero() != (c.Absent == "") {
			t.Errorf("%s has the value %v in a prediction that has few", name, few.FieldByName(name))
		}
	}
	p := predictionOf(o, 0)
	if p.Class != "b" || *p.Value != 7 || *p.Low != 6 || *p.High != 8 || *p.Time != 3 || p.Integrity != outcome.IntegrityGap || strings.Join(p.Set, " ") != "b a" {
		t.Errorf("prediction %+v", p)
	}
	o.Predictions[0].Set = []int32{}
	if p := predictionOf(o, 0); p.Set == nil {
		t.Error("an empty set is none")
	}
}
