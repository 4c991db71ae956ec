package alarm_test

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

func TestParseRule(t *testing.T) {
	r, err := alarm.ParseRule("x", ` class "bearing fault"|rub>=0.8, 3 of 5,clear below 0.5 , clear after 10, hold 10m, quiet 22:00-06:00|12:00-12:30, streams A.*.7, by "^([^.]+)[.](.)", final`)
	if err != nil {
		t.Fatal(err)
	}
	if r.K != 3 || r.N != 5 || r.ClearAfter != 10 || r.Hold != 10*time.Minute || len(r.Quiet) != 2 || r.Quiet[0] != (alarm.Quiet{From: 22 * 60, To: 6 * 60}) || !r.Final {
		t.Errorf("%+v", r)
	}
	for class, on := range map[string]bool{"bearing fault": true, "rub": true, "bearing": false} {
		if got, _ := r.Condition.Judge(&codec.Prediction{Answer: outcome.Answer{Probability: .8}}, class); got != on {
			t.Errorf("class %q: on is %t", class, got)
		}
	}
	for stream, want := range map[string]string{"A.b.7": "A.b", "A.b.8": "", "A.b": "", "A.b.7.9": ""} {
		if key, ok := r.Key(stream); key != want || ok != (want != "") {
			t.Errorf("key of %q is %q, %t; want %q", stream, key, ok, want)
		}
	}
	for text, wants := range map[string]string{
		"":                               "empty rule",
		"odd":                            "want class, flag, novel, value, low, high, input, drift or silent",
		"novel":                          "want novel and a p-value",
		"novel 0":                        "more than 0",
		"novel 0.1 0.2":                  "want novel and a p-value",
		"class":                          "want a name",
		"class a,":                       "after the last comma",
		"class a,,b":                     "before a comma",
		"class a b":                      "in quotes",
		"class a|a":                      "duplicate",
		"class a >= 0":                   "more than 0",
		"class a >= 1.5":                 "at most 1",
		"class a >= NaN":                 "more than 0",
		"class a, 3 of 2":                "at most 2",
		"class a, 1 of 65":               "want 1 to 64",
		"class a, clear below 0.5":       "needs a class with a probability",
		"class a >= 0.5, clear below .6": "greater than the probability",
		"class a >= 0.5, clear above .6": "needs a class with a probability",
		"value":                          "want >, >=, < or <= and a number",
		"value>80":                       "separated by blanks",
		"value >80":                      "separated by blanks",
		"value = 80":                     "want >, >=, < or <= and a number",
		"value > much":                   "want a number",
		"value > NaN":                    "want a number",
		"value > 1e39":                   "want a number",
		"low < 80, clear below 75":       "want clear above",
		"value > 80, clear above 85":     "want clear below",
		"value > 80, clear below 85":     "beyond the number",
		"high <= 80, clear above 75":     "beyond the number",
		"value > 80, clear below x":      "want a number",
		"flag flat, clear above 3":       "needs a class with a probability, or a number",
		"class a, hold -1m":              "want a time",
		"class a, hold 1m, hold 2m":      "duplicate",
		"class a, quiet 25:00-06:00":     "time of day",
		"class a, quiet 06:00-06:00":     "time of day",
		"class a, quiet 06:00-07:00|":    "ends with |",
		`class a, by "("`:                "missing closing",
		`class "a`:                       "do not end",
		"class a, sometimes":             "is no clause of a rule",
		"flag odd":                       "want one of gap",
		"silent":                         "want silent and a time",
		"silent 10m, 3 of 5":             "does not count predictions",
		"class \xff":                     "not UTF-8",
	} {
		if _, err := alarm.ParseRule("x", text); err == nil || !strings.Contains(err.Error(), wants) {
			t.Errorf("%q: %v, want %q", text, err, wants)
		}
	}
	if _, err := alarm.ParseRule("no dots.", "class a"); err == nil {
		t.Error("a name that is no token is taken")
	}
}

// TestUnreachable: a rule whose alarm a model cannot raise is detected from the model, and from its
// predictions.
func TestUnreachable(t *testing.T) {
	with := alarm.Capabilities{Classes: []string{"ok", "odd"}, Probability: true, Number: true, Novelty: true, Inputs: true, LeastP: .0125}
	for text, without := range map[string]struct {
		gives alarm.Capabilities
		says  string // "" = the alarm can be raised
	}{
		"class ok|bad":              {with, "names a class"},
		"class ok, only class bad":  {with, "names a class"},
		"class ok|odd >= 0.8":       {with, ""},
		"flag flat":                 {alarm.Capabilities{}, ""},
		"silent 1m":                 {alarm.Capabilities{}, ""},
		"class ok >= 0.8":           {alarm.Capabilities{Classes: with.Classes}, "requires a probability"},
		"value > 3":                 {alarm.Capabilities{Classes: with.Classes}, "requires a predicted number"},
		"high < 3":                  {with, ""},
		"novel 0.5":                 {alarm.Capabilities{Classes: with.Classes}, "requires novelty"},
		"drift novelty":             {alarm.Capabilities{Classes: with.Classes}, "requires novelty"},
		"class ok, only novel 0.01": {with, "the smallest p-value of the model's detector is 0.0125: the alarm is never raised; write novel 0.0126 or more"},
		"novel 0.0126":              {with, ""},
		"novel 0.0125":              {with, ""},
		"novel 0.01":                {alarm.Capabilities{Novelty: true}, ""}, // unknown
		"drift inputs":              {alarm.Capabilities{Novelty: true}, "drift of inputs"},
		"drift score":               {alarm.Capabilities{}, ""},
	} {
		rules, err := alarm.ParseRules(map[string]string{"x": text})
		if err != nil {
			t.Fatal(err)
		}
		never := rules.Unreachable(without.gives)
		if without.says == "" && len(never) > 0 || without.says != "" && (len(never) != 1 || never[0].Rule != "x" || !strings.Contains(never[0].Why, without.says)) {
			t.Errorf("%s: %+v, want %q", text, never, without.says)
		}
	}
	in := alarm.CapabilitiesOf(with.Classes, []codec.Prediction{{}, {Answer: outcome.Answer{Probability: .5, NoveltyP: .1, Inputs: []float32{1}, Number: outcome.Number{Known: true}}}})
	if in.LeastP = with.LeastP; !reflect.DeepEqual(in, with) {
		t.Errorf("%+v, want %+v", in, with)
	}
}

// TestLevel: a rule judges a number, or an end of its interval, against its bound; a prediction
// without a number is neither on nor off.
func TestLevel(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		text    string
		number  outcome.Number
		on, off bool
	}{
		{"value > 80", outcome.Number{Value: 80, Known: true}, false, true},
		{"value >= 80", outcome.Number{Value: 80, Known: true}, true, false},
		{"value < -0.5", outcome.Number{Value: -1, Known: true}, true, false},
		{"value <= 80", outcome.Number{Value: 81, Known: true}, false, true},
		{"value > 80, clear below 75", outcome.Number{Value: 78, Known: true}, false, false},
		{"value > 80, clear below 75", outcome.Number{Value: 74, Known: true}, false, true},
		{"value < 10, clear above 12", outcome.Number{Value: 11, Known: true}, false, false},
		{"value < 10, clear above 12", outcome.Number{Value: 13, Known: true}, false, true},
		{"low > 80", outcome.Number{Value: 90, Low: 70, High: 95, Known: true}, false, true},
		{"high < 10", outcome.Number{Value: 5, Low: 1, High: 9, Known: true}, true, false},
		{"value > 80.1", outcome.Number{Value: 80.1, Known: true}, false, true}, // both are float32
		{"value < 80", outcome.Number{}, false, false},
		{"value > 80", outcome.Number{Value: inf, Known: true}, false, false},
	} {
		r, err := alarm.ParseRule("x", c.text)
		if err != nil {
			t.Fatal(err)
		}
		if on, off := r.Condition.Judge(&codec.Prediction{Answer: outcome.Answer{Number: c.number}}, ""); on != c.on || off != c.off {
			t.Errorf("%s of %+v: on %t, off %t", c.text, c.number, on, off)
		}
	}
}

// TestToken: different names have different tokens, and NATS accepts each token.
func TestToken(t *testing.T) {
	seen := map[string]string{}
	long := strings.Repeat("x", 300)
	for _, name := range []string{"", "=", "==", "a", "a.b", "a..b", ".a", "a.", ".", "..", "a b", "a*", "a>", "a=20b", "ä", "=2E", long, long + "y", "a\x00", "A/b"} {
		token := alarm.Token(name)
		if other, twice := seen[token]; twice {
			t.Errorf("%q and %q are both %q", name, other, token)
		}
		seen[token] = name
		if token == "" || token[0] == '.' || token[len(token)-1] == '.' || strings.Contains(token, "..") || strings.ContainsAny(token, " *>\x00") {
			t.Errorf("%q becomes %q", name, token)
		}
	}
	if alarm.Token("plant.A.pump-7") != "plant.A.pump-7" {
		t.Error("a plain name is changed")
	}
}

// FuzzRule: an accepted rule parses to the same rule from its text, and a fold can use it.
func FuzzRule(f *testing.F) {
	for _, text := range []string{"class a|b >= 0.8, 3 of 5, clear below 0.5", `flag flat|gap, by "(.)", final`, "silent 10m, hold 1h, quiet 22:00-06:00|12:00-13:00", `class "a, b"`, "class a >= 1e-40", "value > 80, clear below 75", "high <= -1e3, 2 of 3, clear above 0", "class >=", ",,", `"`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		rules, err := alarm.ParseRules(map[string]string{"r": text})
		if err != nil {
			return
		}
		again, err := alarm.ParseRules(rules.Texts())
		if err != nil || again[0].Text != rules[0].Text || again[0].K != rules[0].K || again[0].Silent != rules[0].Silent {
			t.Fatalf("%q is read otherwise the second time: %v", text, err)
		}
		r := rules[0]
		if r.K < 1 || r.K > r.N || r.N > alarm.Window || r.ClearAfter < 1 || r.Hold < 0 || (r.Silent > 0) != (r.Condition == nil) {
			t.Fatalf("%q gives %+v", text, r)
		}
		fold := alarm.NewFold("f", 0)
		if _, err := fold.ApplyFact(fold.ChangeRules(rules, "", "", time.Time{})); err != nil {
			t.Fatal(err)
		}
		m := alarm.Message{Seq: 1, Outs: 1, Labels: []string{"a"}, Predictions: []codec.Prediction{{Stream: "s.t", Answer: outcome.Answer{Probability: 1, Flags: 3}}}}
		if _, err := fold.JudgeMessage(&m); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzEvent: arbitrary bytes are no event, or an event that encodes to the same bytes.
func FuzzEvent(f *testing.F) {
	f.Add([]byte(`{"number":1,"event":"raised","id":"x-1","alarm":1,"rule":"a","key":"s","time":"2026-01-31T12:00:00Z","position":7}`))
	f.Add([]byte(`{"number":2,"event":"rules","rules":{"a":"class b"},"time":"2026-01-31T12:00:00Z","position":7}`))
	f.Add([]byte(`{"number":0}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := alarm.Unmarshal(data)
		if err != nil {
			return
		}
		b, err := e.Marshal()
		if err != nil {
			t.Skip() // a year that RFC 3339 does not allow
		}
		again, err := alarm.Unmarshal(b)
		if err != nil || again.Number != e.Number || again.Kind != e.Kind || again.Key != e.Key || !again.Time.Equal(e.Time) {
			t.Fatalf("%s becomes %s: %v", data, b, err)
		}
		fold := alarm.NewFold("f", e.Position)
		_, _ = fold.ApplyFact(e) // any result is accepted
	})
}

// FuzzState: arbitrary bytes are refused, or are a working fold.
func FuzzState(f *testing.F) {
	rules, err := alarm.ParseRules(map[string]string{"a": "class a, 2 of 3", "b": "silent 1m"})
	if err != nil {
		f.Fatal(err)
	}
	fold := alarm.NewFold("f", 0)
	if _, err := fold.ApplyFact(fold.ChangeRules(rules, "", "", time.Time{})); err != nil {
		f.Fatal(err)
	}
	if _, err := fold.JudgeMessage(&alarm.Message{Seq: 1, Outs: 1, Labels: []string{"a"}, Predictions: []codec.Prediction{{Stream: "s"}}}); err != nil {
		f.Fatal(err)
	}
	b, err := fold.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte{0x1f, 0x8b})
	f.Fuzz(func(t *testing.T, data []byte) {
		fold, err := alarm.DecodeFold(data)
		if err != nil {
			return
		}
		m := alarm.Message{Seq: fold.Position() + 1, Outs: 1 << 60, Partition: 1 << 20, Labels: []string{"a"}, Predictions: []codec.Prediction{{Stream: "s"}}}
		_, _ = fold.JudgeMessage(&m)
		fold.Silences(time.Unix(1, 0), time.Time{})
		fold.SkipTo(m.Seq)
		if _, err := fold.Encode(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestAbstaining: a prediction that abstains neither raises nor clears a class alarm. Its flag
// raises an alarm.
func TestAbstaining(t *testing.T) {
	rules, err := alarm.ParseRules(map[string]string{"c": "class worn >= 0.4", "f": "flag abstain"})
	if err != nil {
		t.Fatal(err)
	}
	p := codec.Prediction{Answer: outcome.Answer{Probability: .5, Flags: outcome.FlagAbstain}}
	for _, r := range rules {
		for _, class := range []string{"worn", "normal"} {
			if on, off := r.Condition.Judge(&p, class); on != (r.Name == "f") || off {
				t.Errorf("rule %s, class %s: on %v, off %v", r.Name, class, on, off)
			}
		}
	}
}

// TestOnly: with only, other predictions neither raise nor clear.
func TestOnly(t *testing.T) {
	rules, err := alarm.ParseRules(map[string]string{"sure": "class bad >= 0.5, 2 of 2, only flag decided", "new": "class bad, only novel 0.01"})
	if err != nil {
		t.Fatal(err)
	}
	f := alarm.NewFold("log", 0)
	if _, err := f.ApplyFact(f.ChangeRules(rules, "", "anna", time.Unix(0, 0))); err != nil {
		t.Fatal(err)
	}
	said := ""
	for i, p := range []codec.Prediction{
		{Answer: outcome.Answer{Class: 1, Probability: .9}},
		{Answer: outcome.Answer{Class: 1, Probability: .9, Flags: outcome.FlagDecided}},
		{Answer: outcome.Answer{Class: 1, Probability: .9}},
		{Answer: outcome.Answer{Class: 0, Probability: .9}}, // not counted: its neighbors are consecutive
		{Answer: outcome.Answer{Class: 1, Probability: .9, Flags: outcome.FlagDecided, NoveltyP: .5}},
		{Answer: outcome.Answer{Class: 0, Probability: .9}},
		{Answer: outcome.Answer{Class: 1, Probability: .9, NoveltyP: .001}},
		{Answer: outcome.Answer{Class: 0, Probability: .9, NoveltyP: .5}},
		{Answer: outcome.Answer{Class: 0, Probability: .9, Flags: outcome.FlagDecided}},
		{Answer: outcome.Answer{Class: 0, Probability: .9, Flags: outcome.FlagDecided, NoveltyP: .001}},
	} {
		p.Stream = "s"
		events, err := f.JudgeMessage(&alarm.Message{Seq: uint64(i + 1), Outs: uint64(i + 1), Stored: time.Unix(int64(i), 0), Labels: []string{"ok", "bad"}, Predictions: []codec.Prediction{p}})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			said += fmt.Sprintln(i, e.Kind, e.Rule)
		}
	}
	if want := "4 raised sure\n6 raised new\n9 cleared new\n9 cleared sure\n"; said != want {
		t.Errorf("the events are\n%swant\n%s", said, want)
	}
	for _, text := range []string{"class a, only", "class a, only drift score", "class a, only silent 1m", "class a, only nothing", "class a, only flag nothing", "class a, only flag gap, only flag held", "silent 1m, only flag gap"} {
		if r, err := alarm.ParseRule("x", text); err == nil {
			t.Errorf("%q is taken: %+v", text, r)
		}
	}
}
