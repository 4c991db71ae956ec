package alarm_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// TestEvidence: an event has the data of the deciding prediction; an acknowledgement has the data
// of the raising prediction, even after the state was stored. Non-finite numbers are absent.
func TestEvidence(t *testing.T) {
	rules, err := alarm.ParseRules(map[string]string{"hot": "value > 80"})
	if err != nil {
		t.Fatal(err)
	}
	f := alarm.NewFold("log", 0)
	if _, err := f.ApplyFact(f.ChangeRules(rules, "", "test", time.Time{})); err != nil {
		t.Fatal(err)
	}
	seq := uint64(0)
	take := func(p codec.Prediction) alarm.Event {
		t.Helper()
		seq++
		p.Stream, p.Time = "s", codec.NoTime
		events, err := f.JudgeMessage(&alarm.Message{Seq: seq, Outs: seq, Labels: []string{"heat"}, Predictions: []codec.Prediction{p}})
		if err != nil || len(events) != 1 {
			t.Fatalf("%+v: %v", events, err)
		}
		return events[0]
	}
	written := func(e alarm.Event) string {
		t.Helper()
		data, err := e.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		again, err := alarm.Unmarshal(data)
		if err != nil || !sameEvent(again, e) {
			t.Errorf("%s is read as %+v: %v", data, again, err)
		}
		var all map[string]any
		if err := json.Unmarshal(data, &all); err != nil {
			t.Fatal(err)
		}
		some := map[string]any{}
		for _, key := range []string{"probability", "novelty", "novelty_p", "value", "low", "high"} {
			if x, there := all[key]; there {
				some[key] = x
			}
		}
		text, err := json.Marshal(some)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	raised := take(codec.Prediction{Answer: outcome.Answer{Novelty: 1.5, NoveltyP: .25, Number: outcome.Number{Value: 90, Low: 80, High: 100, Known: true}}})
	want := `{"high":100,"low":80,"novelty":1.5,"novelty_p":0.25,"value":90}`
	if got := written(raised); got != want {
		t.Errorf("raised: %s, want %s", got, want)
	}
	state, err := f.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if f, err = alarm.DecodeFold(state); err != nil {
		t.Fatal(err)
	}
	acked, err := f.Acknowledge("hot", "s", 0, "anna", time.Unix(9, 0))
	if err != nil {
		t.Fatal(err)
	}
	if got := written(acked); got != want {
		t.Errorf("acknowledged: %s, want %s", got, want)
	}
	if _, err := f.ApplyFact(acked); err != nil {
		t.Fatal(err)
	}
	if on := f.ActiveAlarms(); len(on) != 1 || on[0].NoveltyP != .25 || on[0].Estimate == nil || on[0].Value != 90 {
		t.Errorf("on are %+v", on)
	}
	nan := float32(math.NaN())
	cleared := take(codec.Prediction{Answer: outcome.Answer{Novelty: nan, NoveltyP: .5, Number: outcome.Number{Value: 0, Known: true}}})
	if got, want := written(cleared), `{"high":0,"low":0,"value":0}`; got != want {
		t.Errorf("cleared: %s, want %s", got, want)
	}
}
