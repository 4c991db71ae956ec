package offline

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/machine"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// The table of docs/results.md: the share of numbers in their interval. The number of a series is the logarithm of
// the mean square of its last channel, which is hidden from the model: a virtual sensor. Each draw redivides all
// series of a set, half and half, 1,000 a part at most. On the simulated machine each draw is another seed.
func TestIntervalsOfRealData(t *testing.T) {
	if !parts.Accuracy("intervals") {
		t.Skip("NOT CHECKED: takes minutes, EUSN_ACCURACY=all asks for it")
	}
	const draws, most = 10, 1000
	for _, name := range []string{"machine", "CharacterTrajectories", "JapaneseVowels", "MotionSenseHAR", "SpokenArabicDigits", "NATOPS", "RacketSports"} {
		var set *archive.Dataset
		if name != "machine" {
			set = virtualSensor(realDataset(t, name))
		}
		for _, level := range []float64{.8, .95} {
			var coverage []float64
			var width, r2 float64
			var train, test int
			for draw := range uint64(draws) {
				var d *archive.Dataset
				if name == "machine" {
					all, err := machine.Simulate(context.Background(), machine.Options{Seed: 100 + draw, Train: most, Test: most, Samples: 256}, nil)
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
						s.Split = []archive.Split{archive.Train, archive.Test}[k/half]
						d.Series = append(d.Series, s)
					}
				}
				spec, err := reservoir.Bank("small", len(d.Channels))
				if err != nil {
					t.Fatal(err)
				}
				m, _ := retrained(t, d, RetrainOptions{Spec: spec, Target: d.Target, Coverage: level})
				n := evaluated(t, m, d, EvaluateOptions{}).Numbers
				train, test = len(d.Part(archive.Train)), n.Samples
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

// The table of docs/results.md about intervals that follow the numbers: five draws as above, and a planted shift in
// the second half of the test part: noise of half the deviation of its series on each value that the model sees, or
// an offset of 1 on each number, which the model cannot see.
func TestAdaptiveIntervalsOfRealData(t *testing.T) {
	if !parts.Accuracy("intervals") {
		t.Skip("NOT CHECKED: takes minutes, EUSN_ACCURACY=all asks for it")
	}
	const draws, level = 5, .9
	rates := []float64{.05, .2}
	for _, name := range []string{"CharacterTrajectories", "JapaneseVowels", "MotionSenseHAR", "SpokenArabicDigits", "NATOPS", "RacketSports"} {
		set := virtualSensor(realDataset(t, name))
		spec, err := reservoir.Bank("small", len(set.Channels))
		if err != nil {
			t.Fatal(err)
		}
		for _, shift := range []string{"none", "noise", "offset"} {
			var fixed, was float64
			var now, late, width, bound [2]float64
			test := 0
			for draw := range uint64(draws) {
				d := halved(set, draw)
				m, _ := retrained(t, d, RetrainOptions{Spec: spec, Target: d.Target, Coverage: level})
				switch shift {
				case "noise":
					d = noisy(d, draw)
				case "offset":
					d = offset(d)
				}
				for k, rate := range rates {
					for _, delay := range []int{0, 50} {
						adapted, err := evaluated(t, m, d, EvaluateOptions{}).adapt(m, rate, delay)
						if err != nil {
							t.Fatal(err)
						}
						a := adapted.AdaptiveNumbers
						if b := (1 - level) / 2; max(math.Abs(a.Below-b), math.Abs(a.Above-b)) > a.Bound {
							t.Errorf("%s, %s, draw %d, %d late: %+v is out of its bound", name, shift, draw, delay, a)
						}
						if delay > 0 {
							late[k] += a.Coverage / draws
							continue
						}
						now[k], width[k], bound[k] = now[k]+a.Coverage/draws, width[k]+a.Width/draws, bound[k]+a.Bound/draws
						if k == 0 {
							fixed, was, test = fixed+a.Fixed/draws, was+a.FixWidth/draws, a.Samples
						}
					}
				}
			}
			t.Logf("| %s | %d | %s | %.3f | %.2f | %.3f | %.2f | %.3f | %.2f | %.3f | %.2f | %.3f | %.2f |", name, test, shift, fixed, was,
				now[0], width[0], late[0], bound[0], now[1], width[1], late[1], bound[1])
		}
	}
}

// offset adds 1 to the numbers in the second half of the test part.
func offset(d *archive.Dataset) *archive.Dataset {
	next := *d
	next.Series = slices.Clone(d.Series)
	of := d.Part(archive.Test)
	for _, i := range of[len(of)/2:] {
		next.Series[i].SetNumber(d.Series[i].Number + 1)
	}
	return &next
}

// virtualSensor makes a data set with the numbers of the last channel.
func virtualSensor(d *archive.Dataset) *archive.Dataset {
	all := len(d.Channels)
	next := &archive.Dataset{Name: d.Name, Channels: d.Channels[:all-1], Classes: []string{"power"}, Target: "power", Source: d.Source}
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
		s.SetNumber(math.NaN())
		if squares > 0 {
			s.SetNumber(math.Log(squares / count))
		}
		next.Series = append(next.Series, s)
	}
	return next
}
