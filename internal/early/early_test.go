package early

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
)

// TestRuleIsThatOfSciPy compares the rule and its probabilities with an independent program on
// the same sequences.
func TestRuleIsThatOfSciPy(t *testing.T) {
	b, err := os.ReadFile("testdata/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	var ref struct {
		Sequences []Sequence
		Rules     []struct {
			Loss               float64
			Length             int64
			Coefficients       [4]float64
			Most               float32
			Whole, Accuracy    float64
			Earliness, Decided float64
			Changes            []float64
		}
	}
	if err := json.Unmarshal(b, &ref); err != nil {
		t.Fatal(err)
	}
	for _, want := range ref.Rules {
		rule, got, err := Learn(ref.Sequences, want.Loss)
		if err != nil {
			t.Fatal(err)
		}
		if rule.Length != want.Length || rule.Most != want.Most {
			t.Errorf("loss %v: length %d and threshold %v, want %d and %v", want.Loss, rule.Length, rule.Most, want.Length, want.Most)
		}
		for k, c := range rule.Coefficients {
			if math.Abs(c-want.Coefficients[k]) > 1e-5*(1+math.Abs(c)) { // BFGS ends at a slope of 1e-9 to 1e-6
				t.Errorf("loss %v: coefficient %d is %v, want %v", want.Loss, k, c, want.Coefficients[k])
			}
		}
		for what, pair := range map[string][2]float64{
			"whole": {got.Whole, want.Whole}, "accuracy": {got.Accuracy, want.Accuracy},
			"earliness": {got.Earliness, want.Earliness}, "decided": {got.Decided, want.Decided},
		} {
			if math.Abs(pair[0]-pair[1]) > 1e-12 {
				t.Errorf("loss %v: %s %v, want %v", want.Loss, what, pair[0], pair[1])
			}
		}
		at := 0
		for _, s := range ref.Sequences[:5] {
			for _, p := range s.Prefixes {
				if got := float64(rule.Change(p.Samples, p.Margin)); math.Abs(got-want.Changes[at]) > 1e-5 {
					t.Errorf("loss %v: change %v after %d samples with margin %v, want %v", want.Loss, got, p.Samples, p.Margin, want.Changes[at])
				}
				at++
			}
		}
	}
}

func TestLearnRefuses(t *testing.T) {
	two := Sequence{0, []Prefix{{5, 0, 1}, {10, 0, 2}}}
	many := func(n int, s Sequence) (all []Sequence) {
		for range n {
			all = append(all, s)
		}
		return all
	}
	for _, c := range []struct {
		all  []Sequence
		loss float64
		want string
	}{
		{nil, .1, "at least 10"},
		{many(30, Sequence{0, []Prefix{{10, 0, 2}}}), .1, "0 of 30 sequences have a prefix"},
		{many(30, two), 0, "loss 0"},
		{many(30, two), math.NaN(), "loss NaN"},
		{many(30, Sequence{0, []Prefix{{5, 0, math.NaN()}, {10, 0, 2}}}), .1, "no numbers"},
	} {
		if _, _, err := Learn(c.all, c.loss); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("loss %v of %d: %v, want %q", c.loss, len(c.all), err, c.want)
		}
	}
}

// TestLearnExtremes: if no class ever changes, all sequences are decided at the first prefix;
// if prefixes are always wrong, none is.
func TestLearnExtremes(t *testing.T) {
	var same, wrong []Sequence
	for i := range 40 {
		label := i % 2
		same = append(same, Sequence{label, []Prefix{{10, label, 3}, {20, label, 4}, {40, label, 5}}})
		wrong = append(wrong, Sequence{label, []Prefix{{10, 1 - label, 3}, {20, 1 - label, 4}, {40, label, 5}}})
	}
	if _, r, err := Learn(same, .1); err != nil || r.Decided != 1 || r.Earliness != .25 || r.Accuracy != 1 {
		t.Errorf("nothing changes: %+v, %v", r, err)
	}
	if _, r, err := Learn(wrong, .1); err != nil || r.Decided != 0 || r.Earliness != 1 || r.Accuracy != 1 {
		t.Errorf("all prefixes are wrong: %+v, %v", r, err)
	}
}
