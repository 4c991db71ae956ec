package gpu

import (
	"fmt"
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

const (
	// nearSamples of one run: the minimum that reads states back from both
	// sides of a streamed kernel, and also the maximum, because networks may be
	// unstable.
	nearSamples = 3
	// nearError bounds the error of one sum as a share of the sum of its terms'
	// magnitudes. Three TF32 products and truncating tensor cores stay below
	// 2^-20; a product without its low part is off by up to 2^-11.
	nearError = 1.0 / (1 << 16)
)

// compareNearly is compare for tensor cores: counts and raw samples are equal,
// states are as near as rounding explains, and scores are exactly those of the
// device's own features.
func (e *Engine) compareNearly(truth reservoir.Engine, samples int) error {
	linear := testReadout(e.net.Spec.FeatureCount())
	inputs := make([]float32, samples*e.channels)
	fill(inputs, 1)
	used := min(testSlots, e.slots)
	var runs []reservoir.Run // ragged; the last run begins a new sequence
	for i := range used {
		runs = append(runs, reservoir.Run{Slot: int32(i), Reset: i > 0, To: int32(samples - i%samples), Emit: true})
	}
	scores := make([]float32, len(runs)*linear.Columns())
	for _, g := range []reservoir.Engine{truth, e} {
		if err := g.SetReadouts([]*readout.Linear{linear}); err != nil {
			return err
		}
		if err := g.Advance(inputs, runs, scores); err != nil { // the device's are left
			return err
		}
	}
	bounds := e.nearBounds(inputs, samples)
	want, got := make([]uint32, e.layout.Words), make([]uint32, e.layout.Words)
	features, own := make([]float32, e.net.Spec.FeatureCount()), make([]float32, linear.Columns())
	for slot := range int32(used) {
		if err := truth.ReadState(slot, want); err != nil {
			return err
		}
		if err := e.ReadState(slot, got); err != nil {
			return err
		}
		if !slices.Equal(want[:e.layout.First], got[:e.layout.First]) {
			return fmt.Errorf("gpu: self-test on %s: %w: the counts of slot %d are %x, want %x", e.Device(), ErrSelfTest, slot, got[:e.layout.First], want[:e.layout.First])
		}
		for r, bound := range bounds {
			for i := range e.net.Spec.Units {
				at := e.layout.Member(r) + e.layout.State + i
				a, b := math.Float32frombits(want[at]), math.Float32frombits(got[at])
				if !(math.Abs(float64(a)-float64(b)) <= bound) {
					return fmt.Errorf("gpu: self-test on %s: %w: state %d of member %d in slot %d is %v, want %v within %.2g", e.Device(), ErrSelfTest, i, r, slot, b, a, bound)
				}
			}
		}
		e.layout.FeaturesOf(e.net.Spec, got, features)
		linear.Scores(own, features)
		if of := scores[int(slot)*len(own):][:len(own)]; !sameBits(of, own) {
			return fmt.Errorf("gpu: self-test on %s: %w: slot %d: scores %v, want %v", e.Device(), ErrSelfTest, slot, of, own)
		}
	}
	return nil
}

// nearBounds returns the error bound for a state of each member after the given
// samples from a reset: the error of each step, carried on by the next steps.
func (e *Engine) nearBounds(inputs []float32, samples int) []float64 {
	largest := 0.0 // transformed input
	for i, v := range inputs {
		c, x := i%e.channels, math.Abs(float64(v))
		if n := &e.net.Norm; e.net.Spec.Standardize {
			largest = max(largest, (x+math.Abs(float64(n.Mean[c])))*math.Abs(float64(n.Scale[c])))
		} else {
			largest = max(largest, x)
		}
		if e.net.Spec.Difference {
			largest = max(largest, 4*math.Abs(float64(e.net.Norm.Diff[c]))) // samples are within 2
		}
	}
	abs := func(v []float32) (sum float64) {
		for _, x := range v {
			sum += math.Abs(float64(x))
		}
		return sum
	}
	n := e.net.Spec.Units
	bounds := make([]float64, len(e.net.Members))
	for r, m := range e.net.Members {
		keep, gain := math.Abs(float64(m.Keep)), math.Abs(float64(m.Gain))
		row, constant, width := 0.0, 0.0, len(m.Inputs)
		for i := range n {
			row = max(row, abs(m.Recurrent[i*n:(i+1)*n]))
			constant = max(constant, math.Abs(float64(m.Bias[i]))+largest*abs(m.Input[i*width:(i+1)*width]))
		}
		state, bound := 0.0, 0.0
		for range samples {
			step := gain*min(2, nearError*(constant+row*state)) + 1e-6*(keep*state+gain) // the canonical rest rounds the same values
			bound = (keep+gain*row)*bound + step
			state = keep*state + gain
		}
		bounds[r] = bound
	}
	return bounds
}

func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}
