package alarm_test

import (
	"math"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// TestInputCondition: a statistic of a channel beyond the bound is on; without the channel, or with a
// number that is not finite, a prediction is neither on nor off.
func TestInputCondition(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		rule    string
		inputs  []float32
		on, off bool
	}{
		{"input 1 level < -3", []float32{-9, 0, 0, -3.5, 0, 0}, true, false},
		{"input 1 level < -3", []float32{-9, 0, 0, -3, 0, 0}, false, true},
		{"input 0 spread >= 2", []float32{0, 2, 0}, true, false},
		{"input 0 pace > 2", []float32{3, 3, 2}, false, true},
		{"input 0 level > 4, clear below 2", []float32{3, 0, 0}, false, false},
		{"input 2 level > 1", []float32{9, 9, 9, 9, 9, 9}, false, false},
		{"input 0 level > 1", []float32{nan, 0, 0}, false, false},
		{"input 0 level > 1", nil, false, false},
	} {
		r, err := alarm.ParseRule("r", c.rule)
		if err != nil {
			t.Fatal(err)
		}
		p := &codec.Prediction{Answer: outcome.Answer{Inputs: c.inputs, Number: outcome.Number{Value: 99, Known: true}}}
		if on, off := r.Condition.Judge(p, ""); on != c.on || off != c.off {
			t.Errorf("%s: inputs %v are on %v, off %v, want %v, %v", c.rule, c.inputs, on, off, c.on, c.off)
		}
	}
	for text, want := range map[string]string{
		"input 1 level":       "want the number of a channel",
		"input 1 height > 2":  "level or spread or pace",
		"input speed level>2": "want the number of a channel",
		"input -1 level > 2":  "want a number from 0",
		"input 1 level > x":   "want a number such as",
	} {
		if _, err := alarm.ParseRule("r", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestUnlessInput: predictions of a stopped machine raise no alarm, and a model that does not read
// inputs is reported.
func TestUnlessInput(t *testing.T) {
	rules, err := alarm.ParseRules(map[string]string{"odd": "novel 0.1, unless input 0 level < -3"})
	if err != nil {
		t.Fatal(err)
	}
	f := ruledFold(t, rules)
	for i, c := range []struct {
		level float32
		want  int
	}{{-5, 0}, {-4, 0}, {1, 1}} {
		seq := uint64(i + 1)
		events, err := f.JudgeMessage(&alarm.Message{Seq: seq, Outs: seq, Labels: []string{"normal", "novel"}, Predictions: []codec.Prediction{
			{Stream: "s", Time: codec.NoTime, Answer: outcome.Answer{Novelty: 3, NoveltyP: .01, Inputs: []float32{c.level, 0, 0}}},
		}})
		if err != nil || len(events) != c.want {
			t.Errorf("level %v: %d events, want %d: %v", c.level, len(events), c.want, err)
		}
	}
	if all := rules.Unreachable(alarm.Capabilities{Novelty: true}); len(all) != 1 || !strings.Contains(all[0].Why, "train the model with --drift") {
		t.Errorf("without inputs: %+v", all)
	}
	if all := rules.Unreachable(alarm.Capabilities{Novelty: true, Inputs: true}); len(all) != 0 {
		t.Errorf("with inputs: %+v", all)
	}
}
