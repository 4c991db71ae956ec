package reservoir

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// The statistics follow their definition, computed here from all samples: the mean of length
// L has equal weights up to L samples, and then decays by 1 - 1/L a sample.
func TestStatistics(t *testing.T) {
	f := &Front{Means: []int{1, 3, 8}}
	const channels, n = 2, 40
	x := make([]float32, 0, channels*n)
	for i := range n {
		x = append(x, float32(i*i%17), 1e4+float32(i%5))
	}
	mean := func(c, length, samples int) (m float64) {
		for i := range samples {
			weight := 1.0
			for k := i + 1; k <= samples; k++ {
				if k == i+1 {
					weight = 1 / float64(min(k, length))
				} else {
					weight *= 1 - 1/float64(min(k, length))
				}
			}
			m += weight * float64(x[i*channels+c])
		}
		return m
	}
	state, got := make([]float64, f.StateSize(channels)), make([]float32, f.StatisticsSize(channels))
	for i := range n {
		f.Run(state, int64(i), slices.Clone(x[i*channels:(i+1)*channels]), channels)
		f.Statistics(got, state, channels)
		for c := range channels {
			m := [3]float64{mean(c, 1, i+1), mean(c, 3, i+1), mean(c, 8, i+1)}
			for k, want := range [3]float64{m[0], m[0] - m[1], m[1] - m[2]} {
				// a float32 of a level of 1e4, or of a difference of rounded float64 sums of such levels
				if tolerance := 1e-9 + math.Abs(want)/(1<<24); math.Abs(float64(got[c*3+k])-want) > tolerance {
					t.Fatalf("sample %d, channel %d, statistic %d: %v, want %v", i, c, k, got[c*3+k], want)
				}
			}
		}
	}
}

// The running means leave the samples unchanged, and follow the other parts in the state.
func TestStatisticsFollowTheOtherParts(t *testing.T) {
	with, without := &Front{Smooth: 3, Decimate: 2, Means: []int{4}}, &Front{Smooth: 3, Decimate: 2}
	x := []float32{1, 5, 2, 8, 3, 9, 4, 4}
	a, b := slices.Clone(x), slices.Clone(x)
	state, other := make([]float64, with.StateSize(1)), make([]float64, without.StateSize(1))
	n, m := with.Run(state, 0, a, 1), without.Run(other, 0, b, 1)
	if n != m || n != 4 || !slices.Equal(a[:n], b[:m]) || !slices.Equal(state[:len(other)], other) {
		t.Fatalf("%v, state %v, want %v, %v", a[:n], state, b[:m], other)
	}
	want := (float64(a[0]) + float64(a[1]) + float64(a[2]) + float64(a[3])) / 4
	if got := state[len(other)]; math.Abs(got-want) > 1e-12 { // sums of four float64 values below 10
		t.Errorf("mean %v, want %v of the output samples", got, want)
	}
}

func TestMeansAreChecked(t *testing.T) {
	for _, c := range []struct {
		means []int
		want  string
	}{
		{[]int{4, 16}, ""}, {[]int{1}, ""}, {[]int{16, 4}, "ascending"}, {[]int{4, 4}, "ascending"}, {[]int{0, 4}, "ascending"},
		{[]int{4, MaxFront + 1}, "ascending"}, {[]int{1, 2, 3, 4, 5, 6, 7, 8, 9}, "at most 8"},
	} {
		err := (&Front{Means: c.means}).CheckParts(Policy{Kind: Marked})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: %v, want %q", c.means, err, c.want)
		}
	}
}
