package offline

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// The table of docs/measurements/regression.md: how many numbers are in their interval.
// The number of a series is the logarithm of the mean square of its last channel, which
// the model is not shown: a virtual sensor. Each draw divides all series of a set anew,
// half and half, 1,000 a part at most. On the simulated machine it is another seed.
func TestIntervalsOfRealData(t *testing.T) {
	if !parts.Accuracy("intervals") {
		t.Skip("NOT CHECKED: takes minutes, EUSN_ACCURACY=all asks for it")
	}
	const draws, most = 10, 1000
	for _, name := range []string{"machine", "CharacterTrajectories", "JapaneseVowels", "MotionSenseHAR", "SpokenArabicDigits", "NATOPS", "RacketSports"} {
		var set *Dataset
		if name != "machine" {
			set = virtualSensor(realDataset(t, name))
		}
		for _, level := range []float64{.8, .95} {
			var coverage []float64
			var width, r2 float64
			var train, test int
			for draw := range uint64(draws) {
				var d *Dataset
				if name == "machine" {
					all, err := SimulateMachine(context.Background(), MachineOptions{Seed: 100 + draw, Train: most, Test: most, Samples: 256}, nil)
					if err != nil {
						t.Fatal(err)
					}
					d = virtualSensor(all)
				} else {
					copied := *set
					d, copied.Series = &copied, nil
					order := rand.New(rand.NewPCG(draw, 19)).Perm(len(set.Series))
					half := min(len(order)/2, most)
					for k, i := range order[:2*half] {
						s := set.Series[i]
						s.Split = []Split{Train, Test}[k/half]
						d.Series = append(d.Series, s)
					}
				}
				spec, err := reservoir.Bank("small", len(d.Channels))
				if err != nil {
					t.Fatal(err)
				}
				m, _ := retrained(t, d, RetrainOptions{Spec: spec, Target: d.Target, Coverage: level})
				n := evaluated(t, m, d, EvaluateOptions{}).Numbers
				train, test = len(d.Part(Train)), n.Samples
				coverage, width, r2 = append(coverage, n.Coverage), width+n.Width/draws, r2+*n.R2/draws
			}
			mean, square := 0., 0.
			for _, c := range coverage {
				mean, square = mean+c/draws, square+c*c/draws
			}
			t.Logf("| %s | %d, %d | %g | %.4f | %.4f | %.3f to %.3f | %.2f | %.3f |", name, train, test, level, mean, math.Sqrt(max(0, square-mean*mean)), slices.Min(coverage), slices.Max(coverage), width, r2)
			if math.Abs(mean-level) > .02 {
				t.Errorf("%s: %.4f of the numbers are in their interval of %g", name, mean, level)
			}
		}
	}
}

// virtualSensor makes a data set of one whose number is that of the last channel.
func virtualSensor(d *Dataset) *Dataset {
	all := len(d.Channels)
	next := &Dataset{Name: d.Name, Channels: d.Channels[:all-1], Classes: []string{"power"}, Target: "power", Source: d.Source}
	for _, s := range d.Series {
		var squares, count float64
		var rest []float32
		for x := s.Values; len(x) > 0; x = x[all:] {
			if last := float64(x[all-1]); last == last {
				squares, count = squares+last*last, count+1
			}
			rest = append(rest, x[:all-1]...)
		}
		s.Values = rest
		s.number(math.NaN())
		if squares > 0 {
			s.number(math.Log(squares / count))
		}
		next.Series = append(next.Series, s)
	}
	return next
}
