package alarm_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// driftingMessages returns predictions of two streams, one per second. Stream b changes: its
// probability falls from 1,000 on, its class mix changes from 2,000 on, its interval is two seconds
// from 3,000 on. From 2,200 on the level of its second channel is one deviation higher. Stream a is
// more novel from 3,500 on.
func driftingMessages() (all []alarm.Message) {
	r, novel, inputs := rand.New(rand.NewPCG(1, 2)), rand.New(rand.NewPCG(3, 4)), rand.New(rand.NewPCG(5, 6))
	begin := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	at := [2]int64{begin.UnixNano(), begin.UnixNano()}
	for i := range 4000 {
		m := alarm.Message{Seq: uint64(i + 1), Stored: begin.Add(time.Duration(i) * time.Second), Labels: []string{"x", "y"}, Outs: uint64(2 * (i + 1))}
		for s, name := range []string{"a", "b"} {
			p := codec.Prediction{Stream: name, Seq: uint64(i + 1), Answer: outcome.Answer{Score: r.Float32(), Probability: .8 + .2*r.Float32()}}
			if i >= 200 { // earlier predictions come from a readout without a detector
				p.Novelty, p.NoveltyP = 1+.1*novel.Float32(), .5
			}
			if name == "a" && i >= 3500 {
				p.Novelty += .03
			}
			for range 6 { // two channels
				p.Inputs = append(p.Inputs, float32(inputs.NormFloat64()))
			}
			if name == "b" && i >= 2200 {
				p.Inputs[3]++
			}
			every, mix := int64(1e9), 10
			if name == "b" && i >= 1000 {
				p.Probability -= .1
			}
			if name == "b" && i >= 2000 {
				mix = 2
			}
			if name == "b" && i >= 3000 {
				every = 2e9
			}
			if r.IntN(mix) == 0 {
				p.Class = 1
			}
			at[s] += every + int64(r.IntN(1e7))
			p.Time = at[s]
			m.Predictions = append(m.Predictions, p)
		}
		all = append(all, m)
	}
	return all
}

func TestDrift(t *testing.T) {
	rules, err := alarm.ParseRules(map[string]string{
		"sure":   "drift probability, shift 1",
		"mix":    "drift class y, shift 1, clear after 20",
		"rate":   "drift interval, shift 1",
		"score":  "drift score, shift 1",
		"input":  "drift novelty, shift 1",
		"both":   `drift probability, by "()", shift 1`,
		"shift":  "drift inputs",
		"levels": `drift inputs level, by "()"`,
		"paces":  "drift inputs pace",
		"quiet":  "drift probability, shift 1, quiet 00:15-00:40",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		rule, key, change string
		from, to          uint64 // positions
	}{
		{"both", "", "wider", 1000, 1150}, {"sure", "b", "down", 1000, 1060}, {"mix", "b", "wider", 2000, 2080},
		{"quiet", "b", "down", 2401, 2401}, {"rate", "b", "wider", 3000, 3060},
		{"input", "a", "up", 3500, 3560},
		{"shift", "b", "channel 1 level up", 2200, 2300}, {"levels", "", "channel 1 level ", 2200, 2500},
	}
	var first []alarm.Event
	for _, every := range []int{0, 7} { // interval of storing and decoding the fold
		f := alarm.NewFold("log", 0)
		if _, err := f.ApplyFact(f.ChangeRules(rules, "", "test", time.Time{})); err != nil {
			t.Fatal(err)
		}
		var events []alarm.Event
		for i, m := range driftingMessages() {
			if i == 1500 { // an additional rule, which must not reset the series
				texts := rules.Texts()
				texts["other"] = "class z"
				more, err := alarm.ParseRules(texts)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := f.ApplyFact(f.ChangeRules(more, "", "test", time.Time{})); err != nil {
					t.Fatal(err)
				}
			}
			now, err := f.JudgeMessage(&m)
			if err != nil {
				t.Fatal(err)
			}
			events = append(events, now...)
			if every > 0 && i%every == 0 && i%200 < 50 {
				data, err := f.Encode()
				if err != nil {
					t.Fatal(err)
				}
				if f, err = alarm.DecodeFold(data); err != nil {
					t.Fatal(err)
				}
				if again, err := f.Encode(); err != nil || !bytes.Equal(data, again) {
					t.Fatalf("the state is not the same after it was read: %v", err)
				}
			}
		}
		if every == 0 {
			first = events
		} else if !reflect.DeepEqual(first, events) {
			t.Errorf("stored every %d messages: other events", every)
		}
	}
	var raised []alarm.Event
	cleared := 0
	for _, e := range first {
		if e.Kind == alarm.Raised {
			raised = append(raised, e)
		} else {
			cleared++
		}
	}
	if len(raised) != len(want) || cleared != len(raised) {
		t.Fatalf("%d raised, %d cleared, want %d of each: %v", len(raised), cleared, len(want), first)
	}
	for i, w := range want {
		found := false
		for _, e := range raised {
			found = found || e.Rule == w.rule && e.Key == w.key && strings.HasPrefix(e.Change, w.change) && e.Position >= w.from && e.Position <= w.to
		}
		if !found {
			t.Errorf("%v was not found: %v", want[i], raised)
		}
	}
}

func TestDriftRules(t *testing.T) {
	for text, says := range map[string]string{
		"drift":                             "want probability, score, novelty, interval",
		"drift row":                         "want probability, score, novelty, interval",
		"drift novelty 0.1":                 "want probability, score, novelty, interval",
		`drift "probability"`:               "want probability",
		"drift class":                       "want probability",
		"drift inputs mean":                 "inputs and one of level, spread, pace",
		"drift inputs level spread":         "want probability",
		"drift class a|b":                   "want probability",
		"drift score, 3 of 5":               "does not count predictions",
		"drift score, clear below .5":       "clear below needs a class",
		"drift score, between 5":            "values between false alarms, want 100",
		"drift score, between x":            "want a number",
		"drift score, shift 9":              "deviations, want 0.1",
		"drift score, shift NaN":            "deviations, want 0.1",
		"class a, shift 1":                  "requires the condition drift",
		"drift score, shift 1, shift 2":     "duplicate",
		"drift probability, between 1 2":    "is no clause of a rule",
		"drift probability, clear after -1": "want 1 to",
	} {
		if _, err := alarm.ParseRule("r", text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
	r, err := alarm.ParseRule("r", `drift class "bearing fault", final, between 1e5, clear after 10`)
	if err != nil || r.Kind != "drift" || r.ClearAfter != 10 || !r.Final {
		t.Error(r, err)
	}
	if text := (alarm.Rules{r}).Texts()["r"]; text != `drift class "bearing fault", final, between 1e5, clear after 10` {
		t.Errorf("the rule's text is %q", text)
	}
}

// TestDriftOfMany: non-finite numbers, and more keys than the limit of series.
func TestDriftOfMany(t *testing.T) {
	rules, err := alarm.ParseRules(map[string]string{"score": "drift score", "sure": "drift probability", "c": "class x >= 0.5"})
	if err != nil {
		t.Fatal(err)
	}
	f := alarm.NewFold("log", 0)
	if _, err := f.ApplyFact(f.ChangeRules(rules, "", "test", time.Time{})); err != nil {
		t.Fatal(err)
	}
	crowded := 0
	for i := range alarm.MostSeries { // two rules: half of the streams fit
		nan := float32(math.NaN())
		m := alarm.Message{Seq: uint64(i + 1), Outs: uint64(i + 1), Labels: []string{"x"}, Predictions: []codec.Prediction{{
			Stream: fmt.Sprint(i), Seq: uint64(i + 1), Answer: outcome.Answer{Score: nan, Probability: nan}, Time: codec.NoTime,
		}}}
		if events, err := f.JudgeMessage(&m); err != nil || len(events) > 0 {
			t.Fatal(events, err)
		}
		if f.ReportCrowded() {
			crowded++
			if i != alarm.MostSeries/2 {
				t.Errorf("crowded at stream %d", i)
			}
		}
	}
	if crowded != 1 {
		t.Errorf("said %d times that there are too many keys", crowded)
	}
	if _, err := f.Encode(); err != nil {
		t.Error(err)
	}
}

// TestInputsAfterEarly: an early first prediction has no inputs. The inputs count from their first
// occurrence, even after decoding the state.
func TestInputsAfterEarly(t *testing.T) {
	rules, err := alarm.ParseRules(map[string]string{"inputs": "drift inputs"})
	if err != nil {
		t.Fatal(err)
	}
	f := alarm.NewFold("log", 0)
	if _, err := f.ApplyFact(f.ChangeRules(rules, "", "test", time.Time{})); err != nil {
		t.Fatal(err)
	}
	const values = 300
	fits := alarm.MostSeries / values
	for i := range fits + 1 {
		stream, outs := fmt.Sprint(i), uint64(2*i+2)
		m := alarm.Message{Seq: uint64(i + 1), Outs: outs, Labels: []string{"x"}, Predictions: []codec.Prediction{
			{Stream: stream, Answer: outcome.Answer{Flags: outcome.FlagEarly}}, {Stream: stream, Seq: 1, Answer: outcome.Answer{Inputs: make([]float32, values)}},
		}}
		if _, err := f.JudgeMessage(&m); err != nil {
			t.Fatal(err)
		}
		if crowded := f.ReportCrowded(); crowded != (i == fits) {
			t.Fatalf("stream %d of %d values each: crowded %v", i, values, crowded)
		}
	}
}
