package readout

import (
	"math"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/readout/novelty"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// answering returns a readout of three classes with every part that a readout may have.
func answering() *Linear {
	l := &Linear{
		Name: "r", Classes: []string{"a", "b", "c"}, Center: []float32{0}, Weights: make([]float32, 3), Intercept: make([]float32, 3),
		Temperature: 2, Coverage: &Coverage{Level: .9, Least: []float64{.2, .2, .2}},
		Abstain: &AbstainRule{MaxError: .1, Confidence: .9, Above: .6},
		Novelty: &novelty.Detector{Center: []float32{0}, Scale: []float32{1}, Left: []float32{1, 2, 3}, Unit: 1, Level: .3},
	}
	prefix := *l
	prefix.Coverage, prefix.Abstain, prefix.Novelty, prefix.Temperature = nil, nil, nil, 1
	l.Prefixes = &Prefixes{Linear: &prefix, Rule: EarlyRule{Length: 10, Coefficients: [4]float64{0, 0, 0, -1}, Most: .9}}
	return l
}

// TestAnswer: a whole sequence has set and novelty, an early sequence change and decision; of
// an earlier answer only the flags of the samples stay.
func TestAnswer(t *testing.T) {
	l := answering()
	a := outcome.Answer{Flags: outcome.FlagGap | outcome.FlagDecided, Change: 9, Novelty: 9, NoveltyP: 9, Number: outcome.Number{Known: true}}
	whole := []float32{.1, .5, .4}
	sets := l.Answer(&a, whole, Seen{Samples: 5, Judged: true, Novelty: 2.5, Inputs: []float32{7}}, []int32{8})
	want := outcome.Answer{
		Class: 1, Score: .5, Probability: l.Probability(whole), Scores: whole, Novelty: 2.5, NoveltyP: l.Novelty.P(2.5),
		Inputs: []float32{7}, Flags: outcome.FlagGap | outcome.FlagAbstain,
	}
	want.Set = l.AppendSet(nil, whole)
	if !a.Equal(&want) || !slices.Equal(sets, append([]int32{8}, want.Set...)) || len(want.Set) == 0 || want.NoveltyP == 0 {
		t.Errorf("whole: %+v, sets %v, want %+v", a, sets, want)
	}
	a.Flags |= outcome.FlagEarly
	first := []float32{4, 1, 0}
	if sets := l.Answer(&a, first, Seen{Samples: 5}, nil); sets != nil {
		t.Errorf("early: sets %v, want none", sets)
	}
	change, decided := l.Change(5, first)
	want = outcome.Answer{Class: 0, Score: 4, Probability: l.Prefixes.Linear.Probability(first), Scores: first, Change: change, Flags: outcome.FlagGap | outcome.FlagEarly | outcome.FlagDecided}
	if !a.Equal(&want) || !decided || a.Set != nil || a.Inputs != nil {
		t.Errorf("early: %+v, want %+v", a, want)
	}
}

// TestAnswerEmptySet: a set without classes differs from no set.
func TestAnswerEmptySet(t *testing.T) {
	l := answering()
	l.Coverage = &Coverage{Level: .9, Least: []float64{.9, .9, .9}}
	for _, sets := range [][]int32{nil, make([]int32, 0, 4)} {
		var a outcome.Answer
		l.Answer(&a, []float32{0, 0, 0}, Seen{}, sets)
		if a.Set == nil || len(a.Set) != 0 {
			t.Errorf("set %#v, want one without classes", a.Set)
		}
	}
}

// TestAnswerDetects: the detector's score replaces the linear score.
func TestAnswerDetects(t *testing.T) {
	l := answering()
	l.Classes, l.Detects, l.Coverage, l.Abstain, l.Prefixes, l.Temperature = []string{"normal", "novel"}, true, nil, nil, nil, 0
	for _, score := range []float32{.5, 9, float32(math.NaN())} {
		var a outcome.Answer
		l.Answer(&a, []float32{123}, Seen{Judged: true, Novelty: score}, nil)
		if want := l.Detected(score); a.Scores[0] != want || a.Score != float32(math.Abs(float64(want))) || (a.Class == 1) != (want > 0) || a.NoveltyP == 0 {
			t.Errorf("novelty %v: %+v, want the score %v", score, a, want)
		}
	}
}

// TestAnswerAddsMeans: class, score and p-value follow from the detector's score with its running means.
func TestAnswerAddsMeans(t *testing.T) {
	l := answering()
	l.Classes, l.Detects, l.Coverage, l.Abstain, l.Prefixes, l.Temperature = []string{"normal", "novel"}, true, nil, nil, nil, 0
	d := *l.Novelty
	d.Means = &novelty.Means{Center: []float32{1}, Axes: []float32{100}}
	l.Novelty = &d
	for _, mean := range []float32{1, 3} {
		var a outcome.Answer
		l.Answer(&a, []float32{123}, Seen{Judged: true, Novelty: .5, Statistics: []float32{mean}}, nil)
		want := .5 + 1e4*(mean-1)*(mean-1)
		if a.Novelty != want || a.NoveltyP != d.P(want) || a.Scores[0] != l.Detected(want) || (a.Class == 1) != (mean == 3) {
			t.Errorf("a mean of %v: %+v, want the novelty %v", mean, a, want)
		}
	}
}

// TestAnswerOneColumn: two classes have one score, and class 0 has its opposite; a
// regression's score is its value.
func TestAnswerOneColumn(t *testing.T) {
	l := answering()
	l.Classes, l.Coverage, l.Novelty, l.Abstain, l.Prefixes = []string{"a", "b"}, nil, nil, nil, nil
	var a outcome.Answer
	for score, class := range map[float32]int32{-3: 0, 3: 1} {
		if l.Answer(&a, []float32{score}, Seen{}, nil); a.Class != class || a.Score != 3 {
			t.Errorf("score %v: %+v", score, a)
		}
	}
	l.Classes, l.Temperature, l.Interval = []string{"wear"}, 0, &Interval{Level: .9, Low: -1, High: 2}
	l.Answer(&a, []float32{-3}, Seen{}, nil)
	if a.Class != 0 || a.Score != -3 || a.Number != (outcome.Number{Value: -3, Low: -4, High: -1, Known: true}) {
		t.Errorf("a number: %+v", a)
	}
}

// TestAnswerAllocatesNothing: answers into existing memory allocate nothing.
func TestAnswerAllocatesNothing(t *testing.T) {
	l := answering()
	var a outcome.Answer
	scores, sets := []float32{.1, .5, .4}, make([]int32, 0, 8)
	if n := testing.AllocsPerRun(100, func() {
		sets = l.Answer(&a, scores, Seen{Samples: 5, Judged: true, Novelty: 2}, sets[:0])
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
