package reservoir

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// The statistics follow their definition, computed here from all samples of a segment, however
// the samples are divided into calls. A level of 1e4 does not remove the deviation.
func TestSegments(t *testing.T) {
	const channels, count, length = 2, 3, 5
	f := &Front{Decimate: 2, Segments: &Segments{Count: count, Length: length}}
	x := make([]float32, 0, 2*count*length*channels)
	for i := range 2 * count * length {
		x = append(x, float32(i*i%17), 1e4+float32(i%5))
	}
	var want []float64
	for s := range count {
		for c := range channels {
			var values []float64
			for i := s * length; i < (s+1)*length; i++ {
				values = append(values, float64(float32((float64(x[2*i*channels+c])+float64(x[(2*i+1)*channels+c]))/2)))
			}
			mean, squares := 0., 0.
			for _, v := range values {
				mean += v / length
			}
			for _, v := range values {
				squares += (v - mean) * (v - mean)
			}
			want = append(want, mean, math.Sqrt(squares/length))
		}
	}
	for _, rows := range []int{1, 7, 2 * count * length} {
		state, got := make([]float64, f.StateSize(channels)), make([]float32, f.StatisticsSize(channels))
		for from := 0; from < 2*count*length; from += rows {
			to := min(from+rows, 2*count*length)
			f.Run(state, int64(from), slices.Clone(x[from*channels:to*channels]), channels)
		}
		if f.Statistics(got, state, channels); len(got) != len(want) {
			t.Fatalf("%d statistics, want %d", len(got), len(want))
		}
		for j, v := range want {
			if tolerance := 1e-6 + math.Abs(v)/(1<<24); math.Abs(float64(got[j])-v) > tolerance { // float32 of float64 sums
				t.Errorf("%d rows a call: statistic %d is %v, want %v", rows, j, got[j], v)
			}
		}
		if n := f.Run(state, 0, slices.Clone(x[:2*channels]), channels); n != 1 || state[f.partsSize(channels)+1] != 0 {
			t.Errorf("a new sequence begins with %v", state)
		}
	}
}

func TestSegmentsAreRefused(t *testing.T) {
	for want, f := range map[string]*Front{
		"policy count":       {Segments: &Segments{Count: 4, Length: 5}},
		"whole sequence":     {Segments: &Segments{Count: 4, Length: 4}},
		"want one of them":   {Segments: &Segments{Count: 4, Length: 5}, Means: []int{3}},
		"1 to 64 segments":   {Segments: &Segments{Count: 65, Length: 5}},
		"2 to 1073741824 sa": {Segments: &Segments{Count: 20, Length: 1}},
	} {
		p := Policy{Kind: Count, Length: 20}
		if want == "policy count" {
			p = Policy{Kind: Window, Length: 20, Hop: 20}
		}
		if err := f.CheckParts(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", f.Segments, err, want)
		}
	}
	if err := (&Front{Decimate: 2, Segments: &Segments{Count: 2, Length: 5}}).CheckParts(Policy{Kind: Count, Length: 20}); err != nil {
		t.Error(err)
	}
}
