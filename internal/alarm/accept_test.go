package alarm_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// judgeNovelties judges a prediction a minute and returns the events; its p-value is .001 if its novelty is above 1. With
// restart the fold is stored and loaded after each prediction.
func judgeNovelties(t *testing.T, rule string, novelties []float32, restart bool) string {
	t.Helper()
	f := alarm.NewFold("log", 0)
	if _, err := f.ApplyFact(f.ChangeRules(parsed(t, map[string]string{"r": rule}), "", "", time.Time{})); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for i, v := range novelties {
		p := codec.Prediction{Stream: "s", Answer: outcome.Answer{Novelty: v, NoveltyP: .5}}
		if v > 1 {
			p.NoveltyP = .001
		}
		events, err := f.JudgeMessage(&alarm.Message{Seq: uint64(i + 1), Outs: uint64(i + 1), Stored: time.Unix(int64(60*i), 0), Labels: []string{"ok"}, Predictions: []codec.Prediction{p}})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			b, err := e.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			var read alarm.Event
			if err := json.Unmarshal(b, &read); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&said, "%d %s %v\n", i, read.Kind, read.Accepted)
		}
		if !restart {
			continue
		}
		state, err := f.Encode()
		if err == nil {
			f, err = alarm.DecodeFold(state)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return said.String()
}

// A level that stays is accepted after the stated time: only a larger novelty raises the alarm. The level is forgotten
// after this time at the usual level.
func TestAccept(t *testing.T) {
	levels := []float32{
		.5, 3, 4, 2, .5, 3, // raised at 1, accepted at 6 with 4
		3, 4, 2, .5, 4, // accepted
		5, 3, .5, .5, // a larger novelty: raised at 11; 3 is off: cleared at 13
		.5, .5, .5, .5, 2, // forgotten at 18: raised at 19
	}
	const want = "1 raised 0\n6 cleared 4\n11 raised 0\n13 cleared 0\n19 raised 0\n"
	for _, restart := range []bool{false, true} {
		if got := judgeNovelties(t, "novel 0.01, clear after 2, accept 5m", levels, restart); got != want {
			t.Errorf("with restarts %v:\n%swant\n%s", restart, got, want)
		}
	}
	if got, want := judgeNovelties(t, "novel 0.01, clear after 2", levels, false), "1 raised 0\n14 cleared 0\n19 raised 0\n"; got != want {
		t.Errorf("without accept:\n%swant\n%s", got, want)
	}
	if got, want := judgeNovelties(t, "novel 0.01, clear after 2, accept 2m, hold 5m", levels[:8], false), "1 raised 0\n6 cleared 4\n"; got != want {
		t.Errorf("with hold:\n%swant\n%s", got, want)
	}
	for _, text := range []string{"class a, accept 5m", "novel 0.1, accept", "novel 0.1, accept x", "novel 0.1, accept 0s", "silent 1m, accept 5m"} {
		if r, err := alarm.ParseRule("x", text); err == nil {
			t.Errorf("%q is taken: %+v", text, r)
		}
	}
}

// A novelty of three times that of the alarm raises a new alarm, without a cleared event.
func TestWorse(t *testing.T) {
	levels := []float32{2, 3, 5.9, .5, 6, 7, 17, 18, .5, 2, .5, .5, 1.5}
	for rule, want := range map[string]string{
		"novel 0.01, clear after 2":              "0 raised 0\n4 raised 0\n7 raised 0\n11 cleared 0\n12 raised 0\n",
		"novel 0.01, clear after 2, worse 8.5":   "0 raised 0\n6 raised 0\n11 cleared 0\n12 raised 0\n",
		"novel 0.01, clear after 2, worse 1e6":   "0 raised 0\n11 cleared 0\n12 raised 0\n",
		"novel 0.01, clear after 2, accept 3m":   "0 raised 0\n3 cleared 5.9\n4 raised 0\n7 raised 0\n9 cleared 0\n",
		"novel 0.01, quiet 00:00-00:06":          "6 raised 0\n",
		"novel 0.01, worse 2, quiet 00:01-00:06": "0 raised 0\n6 raised 0\n",
	} {
		for _, restart := range []bool{false, true} {
			if got := judgeNovelties(t, rule, levels, restart); got != want {
				t.Errorf("%s, with restarts %v:\n%swant\n%s", rule, restart, got, want)
			}
		}
	}
	for _, text := range []string{"class a, worse 3", "novel 0.1, worse", "novel 0.1, worse x", "novel 0.1, worse 1", "novel 0.1, worse NaN", "novel 0.1, worse 2 3", "novel 0.1, worse 1e99"} {
		if r, err := alarm.ParseRule("x", text); err == nil {
			t.Errorf("%q is taken: %+v", text, r)
		}
	}
}

// An alarm of novelty stays on through short returns to the usual level, without any clause.
func TestNovelHysteresis(t *testing.T) {
	levels := []float32{3, .5, .5, 3, .5}
	for range 10 {
		levels = append(levels, .5)
	}
	if got, want := judgeNovelties(t, "novel 0.01", append(levels, .5), false), "0 raised 0\n15 cleared 0\n"; got != want {
		t.Errorf("%swant\n%s", got, want)
	}
	for text, want := range map[string]int{"novel 0.01, 3 of 5": 12, "novel 0.01, 3 of 20": 20, "novel 0.01, clear after 2": 2, "class a": 1} {
		if r, err := alarm.ParseRule("x", text); err != nil || r.ClearAfter != want {
			t.Errorf("%s: %+v, %v, want clear after %d", text, r, err, want)
		}
	}
}

// With unless, predictions of another condition neither raise nor clear.
func TestUnless(t *testing.T) {
	rules := parsed(t, map[string]string{"r": "novel 0.01, clear after 1, unless flag flat"})
	f := alarm.NewFold("log", 0)
	if _, err := f.ApplyFact(f.ChangeRules(rules, "", "", time.Time{})); err != nil {
		t.Fatal(err)
	}
	said := ""
	for i, p := range []outcome.Answer{
		{NoveltyP: .001, Flags: outcome.FlagFlat}, {NoveltyP: .001}, {NoveltyP: .5, Flags: outcome.FlagFlat}, {NoveltyP: .5},
	} {
		events, err := f.JudgeMessage(&alarm.Message{Seq: uint64(i + 1), Outs: uint64(i + 1), Stored: time.Unix(int64(i), 0), Predictions: []codec.Prediction{{Stream: "s", Answer: p}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			said += fmt.Sprintln(i, e.Kind)
		}
	}
	if want := "1 raised\n3 cleared\n"; said != want {
		t.Errorf("the events are\n%swant\n%s", said, want)
	}
	for _, text := range []string{"novel 0.1, unless", "novel 0.1, unless drift score", "novel 0.1, unless silent 1m", "silent 1m, unless flag gap"} {
		if r, err := alarm.ParseRule("x", text); err == nil {
			t.Errorf("%q is taken: %+v", text, r)
		}
	}
}
