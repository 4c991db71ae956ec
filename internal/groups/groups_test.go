package groups

import (
	"math"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"":                 "want stream, day, a column",
		"^hall[0-9]+-":     "want stream, or a regular expression with a group",
		"^(?:hall[0-9]+)-": "want stream, or a regular expression with a group",
		"(hall":            "missing closing )",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	for text, want := range map[string][2]string{ // of stream hall12-pump-3: column, group
		"machine":          {"machine", "hall12-pump-3"},
		"machine.id":       {"machine.id", "hall12-pump-3"},
		"stream":           {"", "hall12-pump-3"},
		"day":              {"", "hall12-pump-3"},
		"^(hall[0-9]+)-":   {"", "hall12"},
		"(pump)-([0-9]+)":  {"", "pump"},
		"^(?:h)all(..)":    {"", "12"},
		"^(site[0-9]+)-|x": {"", ""},
	} {
		r, err := Parse(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if column, is := r.Column(); column != want[0] || is != (want[0] != "") || r.Stream("hall12-pump-3") != want[1] || r.Days() != (text == "day") || r.String() != text {
			t.Errorf("%q: column %q, group %q, want %q", text, column, r.Stream("hall12-pump-3"), want)
		}
	}
	if Day(-1) != "1969-12-31" || Day(86400e9) != "1970-01-02" {
		t.Errorf("days %s and %s", Day(-1), Day(86400e9))
	}
}

func TestReport(t *testing.T) {
	rule, err := Parse("machine")
	if err != nil {
		t.Fatal(err)
	}
	r := NewReport(rule, []Result{{Group: "a", Sequences: 10, Correct: 9}, {Group: "c", Sequences: 10, Correct: 5}, {Group: "b", Sequences: 20, Correct: 10}})
	if order := r.Groups[0].Group + r.Groups[1].Group + r.Groups[2].Group; order != "bca" || r.Accuracy != 24./40 || math.Abs(r.Mean-1.9/3) > 1e-12 { // rounding of a sum
		t.Errorf("%+v", r)
	}
	if _, known := r.Flatters(); known {
		t.Error("the difference to plain leave-one-out is known, and nobody said it")
	}
	r.SetPlain(math.NaN())
	if r.Plain != nil || strings.Contains(r.String(), "without groups") {
		t.Errorf("a plain accuracy that is no number: %v", r)
	}
	r.SetPlain(.75)
	if more, known := r.Flatters(); !known || math.Abs(more-.15) > 1e-12 {
		t.Errorf("flatters by %g", more)
	}
	if got, want := r.String(), "groups by machine: accuracy 0.6000, mean over 3 groups 0.6333, worst b with 0.5000; leave-one-out without groups says 0.7500"; got != want {
		t.Errorf("%s", got)
	}
}
