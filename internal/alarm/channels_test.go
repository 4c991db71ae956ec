package alarm_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// TestChannelShares: raised has the shares of the squared deviations above 2, largest first; small
// shares and numbers that are not finite are left out.
func TestChannelShares(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		inputs []float32
		want   string
	}{
		{nil, ""},
		{[]float32{1, -2, 0, .5, 1.9, 2}, ""},
		{[]float32{1, 0, 0, 0, 3, -4, 2.5, 0, 0}, "channel 1: 80 % (pace -4), channel 2: 20 % (level +2.5)"},
		{[]float32{9, 1, 1, 2.1, 0, 0}, "channel 0: 95 % (level +9), channel 1: 5 % (level +2.1)"},
		{[]float32{10, 1, 1, 2.1, 0, 0}, "channel 0: 96 % (level +10)"},
		{[]float32{5, 0, 0, nan, 0, 0}, ""},
		{[]float32{3, 0, 0, 3, 0, 0, 3, 0, 0, 3, 0, 0, 3, 0, 0, 4, 0, 0}, "channel 5: 26 % (level +4), channel 0: 15 % (level +3), channel 1: 15 % (level +3), channel 2: 15 % (level +3), channel 3: 15 % (level +3)"},
	} {
		f := channelsFold(t)
		e := judgeInputs(t, f, .1, c.inputs)
		if got := e.ChannelsText(); got != c.want {
			t.Errorf("inputs %v: %q, want %q", c.inputs, got, c.want)
		}
	}
}

// TestChannelsStay: an acknowledgement has the channels of the raising prediction, also after the
// state was stored; an event that clears the alarm has none.
func TestChannelsStay(t *testing.T) {
	f := channelsFold(t)
	raised := judgeInputs(t, f, .1, []float32{1, 0, 6, 3, 0, 0})
	if len(raised.Channels) != 2 {
		t.Fatalf("%+v, want two channels", raised.Channels)
	}
	state, err := f.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if f, err = alarm.DecodeFold(state); err != nil {
		t.Fatal(err)
	}
	acked, err := f.Acknowledge("odd", "s", 0, "anna", time.Unix(9, 0))
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(acked.Channels) != fmt.Sprint(raised.Channels) {
		t.Errorf("acknowledged: %+v, want %+v", acked.Channels, raised.Channels)
	}
	if _, err := f.ApplyFact(acked); err != nil {
		t.Fatal(err)
	}
	if cleared := judgeInputs(t, f, .9, []float32{9, 0, 0, 0, 0, 0}); cleared.Kind != alarm.Cleared || cleared.Channels != nil {
		t.Errorf("cleared: %+v, want no channels", cleared)
	}
}

func channelsFold(t *testing.T) *alarm.Fold {
	t.Helper()
	rules, err := alarm.ParseRules(map[string]string{"odd": "novel 0.5, clear after 1"})
	if err != nil {
		t.Fatal(err)
	}
	return ruledFold(t, rules)
}

// ruledFold returns a new fold with rules.
func ruledFold(t *testing.T, rules alarm.Rules) *alarm.Fold {
	t.Helper()
	f := alarm.NewFold("log", 0)
	if _, err := f.ApplyFact(f.ChangeRules(rules, "", "test", time.Time{})); err != nil {
		t.Fatal(err)
	}
	return f
}

// judgeInputs judges the next prediction, with the p-value p.
func judgeInputs(t *testing.T, f *alarm.Fold, p float32, inputs []float32) alarm.Event {
	t.Helper()
	seq := f.Position() + 1
	events, err := f.JudgeMessage(&alarm.Message{Seq: seq, Outs: seq, Labels: []string{"normal", "novel"}, Predictions: []codec.Prediction{
		{Stream: "s", Time: codec.NoTime, Answer: outcome.Answer{Novelty: 3, NoveltyP: p, Inputs: inputs}},
	}})
	if err != nil || len(events) != 1 {
		t.Fatalf("%+v: %v", events, err)
	}
	return events[0]
}
