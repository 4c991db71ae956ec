package readout

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// TestAppendSet computes by hand the classes with a probability of at least the threshold.
func TestAppendSet(t *testing.T) {
	l := &Linear{Classes: []string{"a", "b", "c"}, Temperature: 1, Coverage: &Coverage{Level: .5, Least: []float64{.4, .4, .05}}}
	log := func(p ...float64) (s []float32) {
		for _, v := range p {
			s = append(s, float32(math.Log(v)))
		}
		return s
	}
	two := &Linear{Classes: []string{"a", "b"}, Temperature: 2, Coverage: &Coverage{Level: .5, Least: []float64{.25, 0}}}
	for _, c := range []struct {
		l      *Linear
		scores []float32
		want   []int32
	}{
		{l, log(.5, .45, .05001), []int32{0, 1, 2}}, {l, log(.8, .16, .04), []int32{0}}, {l, log(.32, .3, .38), []int32{2}},
		{l, log(.39, .38, .23), []int32{2}}, {l, []float32{float32(math.NaN()), 1, 2}, nil},
		{two, []float32{0}, []int32{0, 1}}, {two, []float32{.5}, []int32{0, 1}}, {two, []float32{.6}, []int32{1}}, {two, []float32{-9}, []int32{0, 1}},
		{&Linear{Classes: l.Classes, Temperature: 1}, []float32{1, 2, 3}, nil},
	} {
		if got := c.l.AppendSet(nil, c.scores); !slices.Equal(got, c.want) {
			t.Errorf("scores %v: %v, want %v", c.scores, got, c.want)
		}
	}
	room := make([]int32, 0, 3)
	if n := testing.AllocsPerRun(10, func() { l.AppendSet(room, []float32{1, 2, 3}) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestCoverageIsChecked(t *testing.T) {
	good := Linear{Name: "n", Classes: classNames(2), Center: []float32{0}, Weights: []float32{1}, Intercept: []float32{0}, Temperature: 1}
	for want, c := range map[string]Coverage{
		"coverage 0, want":              {Level: 0, Least: []float64{.1, .1}},
		"1 thresholds of coverage":      {Level: .9, Least: []float64{.1}},
		"threshold 1 of coverage is 2,": {Level: .9, Least: []float64{.1, 2}},
		"threshold 0 of coverage is Na": {Level: .9, Least: []float64{math.NaN(), 0}},
		"adapted to 1.5":                {Level: .9, Least: []float64{.1, .1}, Adapted: 1.5},
	} {
		l := good
		if l.Coverage = &c; l.Validate() == nil || !strings.Contains(l.Validate().Error(), want) {
			t.Errorf("got %v, want %q", l.Validate(), want)
		}
	}
	good.Coverage, good.Temperature = &Coverage{Level: .9, Least: []float64{.1, .2}}, 0
	if err := good.Validate(); err == nil || !strings.Contains(err.Error(), "without a temperature") {
		t.Errorf("no temperature: %v", err)
	}
}

func TestAbstainIsChecked(t *testing.T) {
	l := Linear{Name: "n", Classes: classNames(2), Center: []float32{0}, Weights: []float32{1}, Intercept: []float32{0}, Abstain: &AbstainRule{MaxError: .15, Confidence: .9}}
	if err := l.Validate(); err == nil || !strings.Contains(err.Error(), "no temperature") {
		t.Errorf("no temperature: %v", err)
	}
	l.Temperature, l.Abstain = 1, &AbstainRule{MaxError: .15, Confidence: .9, Above: 2}
	if err := l.Validate(); err == nil || !strings.Contains(err.Error(), "threshold 2, want") {
		t.Errorf("a threshold of 2: %v", err)
	}
}

// TestIntervalIsChecked: Validate rejects invalid regressions.
func TestIntervalIsChecked(t *testing.T) {
	good := func() *Linear {
		return &Linear{Name: "n", Classes: []string{"life"}, Center: []float32{0}, Weights: []float32{1}, Intercept: []float32{2}, Interval: &Interval{.9, -1, 2}}
	}
	if err := good().Validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Linear){
		"a regression with 2 names":      func(l *Linear) { l.Classes = []string{"a", "b"} },
		"want at least 2 classes, got 1": func(l *Linear) { l.Interval = nil },
		"an interval of coverage 1":      func(l *Linear) { l.Interval.Level = 1 },
		"an interval of coverage NaN":    func(l *Linear) { l.Interval.Level = math.NaN() },
		"an interval from 3 to 2":        func(l *Linear) { l.Interval.Low = 3 },
		"an interval from NaN to 2":      func(l *Linear) { l.Interval.Low = float32(math.NaN()) },
		"an interval from -1 to +Inf":    func(l *Linear) { l.Interval.High = float32(math.Inf(1)) },
		"and what only classes have":     func(l *Linear) { l.Temperature = 1 },
	} {
		l := good()
		change(l)
		if err := l.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
