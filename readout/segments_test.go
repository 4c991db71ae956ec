package readout

import (
	"math"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// segmented is a readout of four features with weights of two statistics.
func segmented(classes int) *Linear {
	l := &Linear{Name: "part", Temperature: 1, Center: make([]float32, 4), Segments: &SegmentWeights{Center: []float32{1e4, -2}, Limit: []float32{100, 4}}}
	for k := range classes {
		l.Classes = append(l.Classes, string(rune('a'+k)))
	}
	l.Weights = make([]float32, 4*l.Columns())
	for c := range l.Columns() {
		l.Intercept = append(l.Intercept, float32(c))
		l.Segments.Weights = append(l.Segments.Weights, float32(c)+.5, -float32(c))
	}
	return l
}

// Each score has its own weights of the statistics, and other numbers after the scores do not change.
func TestSegmentWeights(t *testing.T) {
	for _, classes := range []int{2, 3, 20} {
		l := segmented(classes)
		if err := l.Validate(); err != nil {
			t.Fatal(err)
		}
		columns, statistics := l.Columns(), []float32{1e4 + 3, 1e9} // the second is limited
		want := make([]float32, columns)
		for c := range want { // exact: small integers and halves
			want[c] = float32(c) + (float32(c)+.5)*3 - float32(c)*4
		}
		got := make([]float32, columns+3)
		if l.AnswerScores(got, make([]float32, 4), statistics); !slices.Equal(got[:columns], want) || !slices.Equal(got[columns:], make([]float32, 3)) {
			t.Errorf("%d classes: %v, want %v", classes, got, want)
		}
		var a outcome.Answer
		if l.Answer(&a, slices.Clone(l.Intercept), Seen{Statistics: statistics}, nil); !slices.Equal(a.Scores, want) || int(a.Class) != l.Class(want) {
			t.Errorf("%d classes: class %d of %v, want %v", classes, a.Class, a.Scores, want)
		}
	}
}

func TestSegmentWeightsAreChecked(t *testing.T) {
	for name, change := range map[string]func(l *Linear){
		"a number": func(l *Linear) {
			l.Classes, l.Interval, l.Temperature = l.Classes[:1], &Interval{Level: .9, Low: -3, High: 2}, 0
		},
		"weights":    func(l *Linear) { l.Segments.Weights = l.Segments.Weights[1:] },
		"limits":     func(l *Linear) { l.Segments.Limit[0] = 0 },
		"network":    func(l *Linear) { l.Weights[3] = 1 },
		"statistics": func(l *Linear) { *l.Segments = SegmentWeights{} },
		"prefixes":   func(l *Linear) { l.Prefixes = new(Prefixes) },
		"NaN":        func(l *Linear) { l.Segments.Center[1] = float32(math.NaN()) },
	} {
		l := segmented(3)
		if change(l); l.Validate() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// An answer allocates nothing.
func TestSegmentWeightsAllocate(t *testing.T) {
	l := segmented(5)
	scores, statistics := make([]float32, 5), []float32{1, 2}
	var a outcome.Answer
	if n := testing.AllocsPerRun(20, func() { l.Answer(&a, scores, Seen{Statistics: statistics}, nil) }); n > 0 {
		t.Errorf("%v allocations a prediction", n)
	}
}
