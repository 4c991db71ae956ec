package cpu

import (
	"errors"
	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"math"
	"testing"
)

// TestTwoLevelSums: the sum over a long sequence stays accurate after a plain
// float32 sum no longer grows.
func TestTwoLevelSums(t *testing.T) {
	plain, words := float32(0), []uint32{0, 0}
	const n, v = 1 << 25, float32(.7)
	for i := range n {
		plain += v
		sum(words, 0, 1, math.Float32frombits(words[0])+v, (i+1)%engine.FoldEvery == 0)
	}
	got := float64(math.Float32frombits(words[0]) + math.Float32frombits(words[1]))
	if e := math.Abs(got/(n*float64(v)) - 1); e > 1e-3 {
		t.Errorf("relative error of the two-level sum %.3g, want below 1e-3", e)
	}
	if e := math.Abs(float64(plain)/(n*float64(v)) - 1); e < .1 {
		t.Errorf("a plain sum is off by only %.3g: this test does not tell the two apart", e)
	}
}

// TestUnitsOf: UnitsOf reads the values of the features "last".
func TestUnitsOf(t *testing.T) {
	for _, spec := range []reservoir.Spec{
		{Arithmetic: reservoir.Arithmetic, Kind: reservoir.EuSN, Channels: 2, Members: 3, Units: 5, Seed: 7, Precision: reservoir.Float32, Standardize: true, Difference: true, Features: []reservoir.Feature{reservoir.Last, reservoir.Mean, reservoir.Positive, reservoir.Max, reservoir.Std}, Eps: reservoir.Fixed(0.1), Gamma: reservoir.Fixed(0.01), Recurrent: reservoir.Fixed(0.5), Input: reservoir.Fixed(1), Bias: reservoir.Fixed(0.1)},
		reservoir.DefaultBank(2).ForLength(64),
	} {
		net, err := reservoir.Draw(spec)
		if err != nil {
			t.Fatal(err)
		}
		net.Norm = reservoir.Norm{Mean: make([]float32, 2), Scale: []float32{1, 1}, Diff: []float32{1, 1}}
		e, err := newGeneric(net, 1)
		if err != nil {
			t.Fatal(err)
		}
		x := make([]float32, 2*40)
		for i := range x {
			x[i] = float32(i%7) - 3
		}
		if err := e.Advance(x, []reservoir.Run{{Reset: true, To: 40}}, nil); err != nil {
			t.Fatal(err)
		}
		l := engine.LayoutOf(net.Spec)
		row, h, all := make([]uint32, l.Words), make([]float32, spec.Members*spec.Units), make([]float32, net.Spec.FeatureCount())
		if err := errors.Join(e.ReadState(0, row), e.Features(0, all), e.Close()); err != nil {
			t.Fatal(err)
		}
		l.UnitsOf(net.Spec, row, h)
		each := net.Spec.FeatureCount() / spec.Members
		moved := 0
		for i, got := range h {
			if want := all[i/spec.Units*each+i%spec.Units]; got != want {
				t.Fatalf("kind %s, member %d, unit %d: %v, want %v", spec.Kind, i/spec.Units, i%spec.Units, got, want)
			}
			if got != 0 {
				moved++
			}
		}
		if moved < len(h)/2 {
			t.Fatalf("kind %s: %d of %d units are not 0: the test has lost its subject", spec.Kind, moved, len(h))
		}
	}
}
