package offline

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// moments is a data set whose classes differ by the moment of a burst within the series: the features of the network are
// means over the series.
func moments(train, test int) *archive.Dataset {
	const channels, samples, classes = 2, 60, 3
	rng := rand.New(rand.NewPCG(4, 4))
	d := &archive.Dataset{Name: "moments", Channels: []string{"a", "b"}, Classes: []string{"early", "middle", "late"}}
	for i := range train + test {
		s := archive.Series{ID: fmt.Sprint(i), Label: i % classes, Split: archive.Train}
		if i >= train {
			s.Split = archive.Test
		}
		for k := range samples {
			scale := 1.
			if burst := 10 + 15*s.Label; k >= burst && k < burst+5 {
				scale = 3
			}
			for range channels {
				s.Values = append(s.Values, float32(scale*rng.NormFloat64()))
			}
		}
		d.Series = append(d.Series, s)
	}
	return d
}

// Segments show the moment of a burst, leave-one-out chooses them, and the library predicts the same bits after the
// model was written and read.
func TestSegmentsAreChosen(t *testing.T) {
	d := moments(300, 150)
	opt := RetrainOptions{Spec: smallBank(2), Segments: &SegmentOptions{}, Policy: reservoir.Policy{Kind: reservoir.Count, Length: 60}}
	m, r := retrained(t, d, opt)
	got, accuracy := r.Segments, 0.
	if accuracy, _ = r.Readout.LeftOut(); got == nil || !got.Chosen || got.Accuracy != accuracy || !(1-got.Accuracy < (1-got.Network)/2) || got.Segments != (reservoir.Segments{Count: 12, Length: 5}) {
		t.Fatalf("%+v, leave-one-out %v", got, accuracy)
	}
	if l := m.Readouts[0]; l.Segments.Statistics() != 2*12*2 || len(l.Segments.Weights) != 3*2*12*2 || l.Temperature == 0 || *m.Front.Segments != got.Segments {
		t.Fatalf("%d statistics, %d weights, temperature %v, front end %+v", l.Segments.Statistics(), len(l.Segments.Weights), l.Temperature, m.Front)
	}
	if n := m.Network.Spec.FeatureCount(); n != 1 {
		t.Errorf("the network has %d features", n)
	}
	opt.Threads = 1
	if other, _ := retrained(t, d, opt); fingerprint(t, other) != fingerprint(t, m) {
		t.Error("another model on one thread")
	}
	ev := evaluated(t, m, d, EvaluateOptions{})
	if ev.Accuracy < got.Accuracy-.1 { // three deviations of 150 series
		t.Errorf("accuracy %v of the test part, %v of leave-one-out", ev.Accuracy, got.Accuracy)
	}
	for i, a := range predictInLibrary(t, m, d) {
		if want := ev.Predictions[i]; int(a.Class) != int(want.Class) || a.Probability != want.Probability {
			t.Fatalf("series %d: class %d at %v in the library, class %d at %v by Evaluate", i, a.Class, a.Probability, want.Class, want.Probability)
		}
	}
}

// If a detector reads the network, the model has the requested network.
func TestSegmentsWithDetector(t *testing.T) {
	d := moments(300, 30)
	opt := RetrainOptions{Spec: smallBank(2), Segments: &SegmentOptions{}, Policy: reservoir.Policy{Kind: reservoir.Count, Length: 60}, Novelty: &NoveltyOptions{}}
	m, r := retrained(t, d, opt)
	l := m.Readouts[0]
	if !r.Segments.Chosen || l.Segments == nil || l.Novelty == nil || m.Network.Spec.FeatureCount() != opt.Spec.WithDefaults().FeatureCount() {
		t.Fatalf("%+v, a network of %d features", r.Segments, m.Network.Spec.FeatureCount())
	}
	ev := evaluated(t, m, d, EvaluateOptions{})
	if ev.Accuracy < r.Segments.Accuracy-.2 { // three deviations of 30 series
		t.Errorf("accuracy %v, %v of leave-one-out", ev.Accuracy, r.Segments.Accuracy)
	}
	for i, p := range ev.Predictions {
		if !(p.Novelty > 0) {
			t.Fatalf("prediction %d: novelty %v", i, p.Novelty)
		}
	}
}

// Under other policies, and if the network is not worse, the model is the same as without segments.
func TestSegmentsAreNotChosen(t *testing.T) {
	count := reservoir.Policy{Kind: reservoir.Count, Length: 60}
	for name, c := range map[string]struct {
		policy  reservoir.Policy
		options SegmentOptions
		compare bool
	}{
		"marked":          {reservoir.Policy{}, SegmentOptions{}, false},
		"early":           {reservoir.Policy{Kind: reservoir.Count, Length: 60, Early: 20}, SegmentOptions{}, false},
		"two in a series": {reservoir.Policy{Kind: reservoir.Count, Length: 30}, SegmentOptions{}, false},
		"prime length":    {reservoir.Policy{Kind: reservoir.Count, Length: 59}, SegmentOptions{}, false},
		"no gain":         {count, SegmentOptions{}, true},
	} {
		d := moments(90, 3)
		if c.compare { // a level throughout the series
			for i := range d.Series {
				for k := range d.Series[i].Values {
					d.Series[i].Values[k] += float32(3 * d.Series[i].Label)
				}
			}
		}
		opt := RetrainOptions{Spec: smallBank(2), Policy: c.policy}
		want, _ := retrained(t, d, opt)
		opt.Segments = &c.options
		m, r := retrained(t, d, opt)
		if (r.Segments != nil) != c.compare || c.compare && r.Segments.Chosen {
			t.Errorf("%s: %+v", name, r.Segments)
		}
		if fingerprint(t, m) != fingerprint(t, want) {
			t.Errorf("%s: another model than without segments", name)
		}
		if c.compare {
			one := opt
			one.Alphas = []float64{1}
			if _, r := retrained(t, d, one); r.Segments != nil {
				t.Errorf("without leave-one-out: %+v", r.Segments)
			}
			c.options.Always = true
			if m, r := retrained(t, d, one); !r.Segments.Chosen || r.Segments.Network != 0 || m.Readouts[0].Segments == nil {
				t.Errorf("always, without leave-one-out: %+v", r.Segments)
			}
			if m, r := retrained(t, d, opt); !r.Segments.Chosen || m.Readouts[0].Segments == nil {
				t.Errorf("always: %+v", r.Segments)
			}
		}
	}
}

func TestSegmentsAreRefused(t *testing.T) {
	for want, opt := range map[string]RetrainOptions{
		"want the policy count": {Segments: &SegmentOptions{Always: true}},
		"divides them":          {Segments: &SegmentOptions{Count: 7, Always: true}, Policy: reservoir.Policy{Kind: reservoir.Count, Length: 60}},
	} {
		opt.Spec = smallBank(2)
		if _, _, err := Retrain(t.Context(), moments(20, 2), opt, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestDivideSequence(t *testing.T) {
	for n, want := range map[int]reservoir.Segments{
		60: {Count: 12, Length: 5}, 64: {Count: 16, Length: 4}, 100: {Count: 10, Length: 10}, 16: {Count: 8, Length: 2}, 2048: {Count: 16, Length: 128}, 12: {Count: 6, Length: 2},
	} {
		if got := divideSequence(n, 0); got == nil || *got != want {
			t.Errorf("%d samples: %+v, want %+v", n, got, want)
		}
	}
	if got := divideSequence(60, 6); got == nil || *got != (reservoir.Segments{Count: 6, Length: 10}) {
		t.Errorf("6 segments of 60 samples: %+v", got)
	}
	for _, n := range []int{0, 1, 3, 10, 61, 82, 134} {
		if got := divideSequence(n, 0); got != nil {
			t.Errorf("%d samples: %+v", n, got)
		}
	}
}
