package codec

import (
	"bytes"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/ipc"

	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// TestMessageHasTheColumnsOfTheTable: a message whose predictions have all values has
// exactly the columns of the table, with the table's types, and decodes unchanged.
func TestMessageHasTheColumnsOfTheTable(t *testing.T) {
	e, err := NewPredictionEncoder(PredictionMeta{Labels: []string{"a", "b"}, Columns: 1, First: "r"})
	if err != nil {
		t.Fatal(err)
	}
	full := Prediction{Stream: "s", Seq: 1, Row: 2, Time: 3, Readout: "r"}
	full.Set, full.Scores, full.Inputs = []int32{0, 1}, []float32{.5}, []float32{1, 2}
	for _, c := range outcome.Columns {
		if c.Float != nil {
			*c.Float(&full.Answer) = .25
		}
	}
	full.Number.Known = true
	body, err := e.Encode([]Prediction{full, {Stream: "t", Readout: "r", Answer: outcome.Answer{Scores: []float32{0}}}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := ipc.NewReader(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	columns := 0
	for _, c := range outcome.Columns {
		if c.Arrow == "" {
			continue
		}
		columns++
		f, there := r.Schema().FieldsByName(c.Arrow)
		if !there {
			t.Errorf("a message has no column %s", c.Arrow)
			continue
		}
		want := arrow.DataType(arrow.FixedSizeListOfNonNullable(1, arrow.PrimitiveTypes.Float32))
		if c.Type != outcome.Scores {
			want = fieldOf(&c).Type
		}
		if !arrow.TypeEqual(f[0].Type, want) || f[0].Nullable != c.Null {
			t.Errorf("column %s is %v, nullable %v, want %v, %v", c.Arrow, f[0].Type, f[0].Nullable, want, c.Null)
		}
	}
	if n := r.Schema().NumFields(); n != columns {
		t.Errorf("a message has %d columns, the table %d", n, columns)
	}
	_, got, err := DecodePredictions(body)
	if err != nil || len(got) != 2 || !got[0].Equal(&full.Answer) || got[1].Novelty != 0 || got[1].Set != nil || got[1].Number.Known {
		t.Errorf("%+v, %v; want %+v first", got, err, full)
	}
}
