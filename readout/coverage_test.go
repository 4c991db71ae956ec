package readout

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/readout/outcome"
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
		return &Linear{Name: "n", Classes: []string{"life"}, Center: []float32{0}, Weights: []float32{1}, Intercept: []float32{2}, Interval: &Interval{Level: .9, Low: -1, High: 2}}
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
		"a cap of NaN":                   func(l *Linear) { nan := float32(math.NaN()); l.Interval.Cap = &nan },
		"values limited to 2 to 1":       func(l *Linear) { l.Interval.Clip = &[2]float32{2, 1} },
		"values limited to 0 to +Inf":    func(l *Linear) { l.Interval.Clip = &[2]float32{0, float32(math.Inf(1))} },
	} {
		l := good()
		change(l)
		if err := l.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestIntervalClips: value, score and both ends keep within the limits; the scores do not
// change, and without limits no value changes.
func TestIntervalClips(t *testing.T) {
	l := &Linear{Name: "n", Classes: []string{"life"}, Center: []float32{0}, Weights: []float32{1}, Intercept: []float32{0}, Interval: &Interval{Level: .9, Low: -3, High: 2}}
	limited := *l
	limited.Interval = &Interval{Level: .9, Low: -3, High: 2, Clip: &[2]float32{0, 125}}
	for score, want := range map[float32][3]float32{
		-7: {0, 0, 0}, -1: {0, 0, 1}, 2: {2, 0, 4}, 60: {60, 57, 62}, 124: {124, 121, 125}, 126: {125, 123, 125}, 300: {125, 125, 125},
	} {
		scores := []float32{score}
		var a outcome.Answer
		limited.Answer(&a, scores, Seen{}, nil)
		if n := a.Number; [3]float32{n.Value, n.Low, n.High} != want || a.Score != want[0] || a.Scores[0] != score {
			t.Errorf("score %v: %+v, score %v of %v, want %v", score, n, a.Score, a.Scores, want)
		}
		if l.Answer(&a, scores, Seen{}, nil); a.Number.Value != score || a.Number.Low != score-3 || a.Number.High != score+2 || a.Score != score {
			t.Errorf("score %v without limits: %+v", score, a.Number)
		}
	}
}
