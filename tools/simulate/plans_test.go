package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestShrinkList removes everything but the two elements that the failure needs.
func TestShrinkList(t *testing.T) {
	all := strings.Split("abcdefghijklmnopqrs", "")
	for _, need := range []string{"", "a", "s", "cq", "abs", "jk"} {
		tries := 0
		got := shrinkList(all, func(rest []string) bool {
			tries++
			return !strings.ContainsFunc(need, func(c rune) bool { return !slices.Contains(rest, string(c)) })
		})
		if strings.Join(got, "") != need {
			t.Errorf("the smallest list with %q is %q", need, got)
		}
		if tries > 80 {
			t.Errorf("%q needs %d tries", need, tries)
		}
	}
}

// TestShrinkPlan keeps the disturbances that the failure needs, and does not change the
// first plan.
func TestShrinkPlan(t *testing.T) {
	p := &plan{Name: "x", Seed: 3, Faults: []string{"a", "b", "c"}, Scenario: map[string]any{
		"Lag": 5, "Idle": 1, "Load": 7, "Traffic": map[string]any{"Late": .1, "Repeat": .2, "Keys": 3},
	}}
	got := shrinkPlan(p, func(p *plan) bool {
		traffic := p.Scenario["Traffic"].(map[string]any)
		return p.Seed == 3 && slices.Contains(p.Faults, "b") && p.Scenario["Lag"] != nil && traffic["Late"] != nil && traffic["Keys"] != nil
	})
	traffic := got.Scenario["Traffic"].(map[string]any)
	if !slices.Equal(got.Faults, []string{"b"}) || len(got.Scenario) != 3 || len(traffic) != 2 || got.Name != "" {
		t.Errorf("the smallest plan is %+v", got)
	}
	if len(p.Faults) != 3 || len(p.Scenario) != 4 || len(p.Scenario["Traffic"].(map[string]any)) != 3 {
		t.Errorf("the first plan became %+v", p)
	}
}

func TestFirstError(t *testing.T) {
	for text, want := range map[string]string{
		"1 lost, 0 duplicated, 12 wrong: stream gw000-1: seq 7 row 2 after 1 missing predictions; stream dev004: x": "stream NAME: seq N row N after N missing predictions",
		"chaos: dev003 4, 88 bytes: the end":   "chaos: NAME N, N bytes: the end",
		"a goroutine is left: one\nmore lines": "a goroutine is left: one",
	} {
		if got := firstError(history{Failures: []string{text, "other"}}); got != want {
			t.Errorf("%q has the first error %q, want %q", text, got, want)
		}
	}
}

// TestKeptPlans reads the plans that once found an error. The simulation refuses fields
// that the scenario does not have.
func TestKeptPlans(t *testing.T) {
	all, err := readPlans("../../integration/chaos/testdata/simulated.json")
	if err != nil || len(all) < 10 {
		t.Fatalf("%d plans, %v", len(all), err)
	}
	seen := map[string]bool{}
	for _, p := range all {
		if p.Name == "" || seen[p.Name] || p.Found == "" || p.Seed == 0 || p.Faults == nil || len(p.Scenario) == 0 { // faults of guests come from the seed
			t.Errorf("incomplete or twice: %+v", p)
		}
		seen[p.Name] = true
	}
	path := filepath.Join(t.TempDir(), "plans.json")
	for _, text := range []string{`{"seed":1}{"sed":2}`, `{"seed":1}{`, `{"seed":"x"}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if all, err := readPlans(path); err == nil {
			t.Errorf("%s was read as %v", text, all)
		}
	}
}
