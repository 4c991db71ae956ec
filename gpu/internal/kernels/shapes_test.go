package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/internal/testing/ptx"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// shape is a network on a device, and the kernel that it must launch (kernels
// for kind mixed).
type shape struct {
	name    string
	spec    reservoir.Spec
	device  Device
	kernels string
	// streamed keeps a network that fits from being resident.
	streamed bool
}

// shapeSlots slots give the first round of a call 70 runs: two tiles of 64, the
// second nearly empty. The number of multiprocessors chooses the tile.
const shapeSlots = 70

func eusn(kind reservoir.Kind, channels, units int) reservoir.Spec {
	s := reservoir.Spec{
		Arithmetic: reservoir.Arithmetic, Kind: kind, Channels: channels, Members: 1, Units: units, Seed: 3, Precision: reservoir.Float32,
		Features: []reservoir.Feature{reservoir.Last}, Input: reservoir.Fixed(1), Bias: reservoir.Fixed(.3),
	}
	if kind == reservoir.EuSN {
		s.Eps, s.Gamma, s.Recurrent = reservoir.Fixed(.1), reservoir.Fixed(.01), reservoir.Fixed(1)
	} else {
		s.SpectralRadius, s.Leak = reservoir.Fixed(.9), reservoir.Fixed(.3)
	}
	return s
}

func bank(channels, members, units int, features ...reservoir.Feature) reservoir.Spec {
	s := eusn(reservoir.EuSN, channels, units)
	s.Members, s.Features = members, features
	if len(features) == 0 {
		s.Features = reservoir.AllFeatures
	}
	s.Standardize, s.Difference, s.Subset = true, true, 9
	s.Input, s.Bias = reservoir.Dist{Lo: .03, Hi: 3}, reservoir.Dist{Lo: .01, Hi: 3}
	s.Eps, s.Gamma = reservoir.Dist{Lo: 1e-3, Hi: 1}, reservoir.Dist{Lo: 1e-4, Hi: .1}
	return s
}

// mixed is a bank of the given tap and recurrent members.
func mixed(channels, members, recurrent, taps, lag int, a reservoir.Activation) reservoir.Spec {
	s := bank(channels, members+recurrent, 16, reservoir.MixedFeatures...)
	s.Arithmetic, s.Kind, s.Eps = reservoir.MixedArithmetic, reservoir.Mixed, reservoir.Dist{}
	s.Recurrent, s.Bias = reservoir.Dist{}, reservoir.Dist{Lo: .03, Hi: 3}
	s.Taps = reservoir.Taps{Members: members, Count: taps, MaxLag: lag, Activation: a}
	if recurrent > 0 {
		s.EpsRho = reservoir.Dist{Lo: 1e-2, Hi: .3}
	}
	return s
}

var shapes = func() []shape {
	const h200, small = 227 << 10, 48 << 10
	list := []shape{
		{"one unit", eusn(reservoir.EuSN, 1, 1), Device{1, h200}, "resident_64", false},
		{"paper, 64", eusn(reservoir.EuSN, 3, 20), Device{1, h200}, "resident_64", false},
		{"paper, 32", eusn(reservoir.EuSN, 2, 33), Device{3, h200}, "resident_32", false},
		{"paper, 16", eusn(reservoir.EuSN, 9, 21), Device{5, h200}, "resident_16", false},
		{"paper, 8", eusn(reservoir.EuSN, 1, 37), Device{9, h200}, "resident_8", false},
		{"wide input", eusn(reservoir.EuSN, 61, 9), Device{3, h200}, "resident_32", false},
		{"leaky", eusn(reservoir.ESN, 2, 19), Device{3, h200}, "resident_32", false},
		{"ring, 64", eusn(reservoir.RESN, 2, 19), Device{1, h200}, "resident_64", false},
		{"ring, 8", eusn(reservoir.RESN, 2, 8), Device{9, h200}, "resident_8", false},
		{"bank, 64", bank(2, 2, 13), Device{1, h200}, "resident_features_64", false},
		{"bank, 32", bank(3, 2, 10), Device{6, h200}, "resident_features_32", false},
		{"bank, 16", bank(2, 3, 7), Device{15, h200}, "resident_features_16", false},
		{"bank, 8", bank(6, 2, 18), Device{18, h200}, "resident_features_8", false},
		{"bank of last states", bank(2, 3, 12, reservoir.Last), Device{1, h200}, "resident_64", false},
		{"streamed, 64", eusn(reservoir.EuSN, 3, 130), Device{2, small}, "streamed_64", false},
		{"streamed, 16", eusn(reservoir.EuSN, 2, 121), Device{5, small}, "streamed_16", false},
		{"streamed, 8", eusn(reservoir.ESN, 20, 122), Device{200, small}, "streamed_8", false},
		{"streamed bank", bank(2, 2, 120), Device{12, small}, "streamed_16", false},
		{"streamed ring", eusn(reservoir.RESN, 2, 701), Device{40, small}, "streamed_16", false},
	}
	// One multiprocessor: a warp takes the runs of several streams in turn.
	list = append(list,
		shape{"mixed", mixed(2, 24, 8, 6, 11, reservoir.Cubic), Device{1, h200}, "mixed_taps_6 mixed_recurrent", false},
		shape{"mixed, 3 taps", mixed(1, 16, 0, 3, 40, reservoir.Clip), Device{1, small}, "mixed_taps_3", false},
		shape{"mixed, tanh", mixed(3, 8, 8, 5, 3, reservoir.Tanh), Device{1, h200}, "mixed_taps mixed_recurrent_any", false},
		shape{"mixed, chunks of a sample", mixed(33, 8, 8, 16, 256, reservoir.Clip), Device{9, small}, "mixed_taps mixed_recurrent_any", false})
	still := mixed(1, 8, 0, 3, 2, reservoir.Clip)
	still.Input = reservoir.Fixed(0)
	list = append(list, shape{"mixed, all zero", still, Device{9, h200}, "mixed_taps_3", false})
	for _, f := range reservoir.AllFeatures {
		list = append(list, shape{"only " + string(f), bank(1, 2, 6, f), Device{12, h200}, "", false})
	}
	list = append(list, shape{"streamed, only std", bank(1, 2, 118, reservoir.Std), Device{200, small}, "streamed_8", false})
	zero := bank(2, 2, 9)
	zero.Input, zero.Bias = reservoir.Fixed(0), reservoir.Fixed(0)
	list = append(list, shape{"all zero", zero, Device{1, h200}, "resident_features_64", false})
	transformed := bank(2, 2, 5)
	transformed.Difference = false
	list = append(list, shape{"standardized only", transformed, Device{1, h200}, "", false})
	transformed.Difference, transformed.Standardize = true, false
	return append(list, shape{"differences only", transformed, Device{1, h200}, "", false})
}()

// TestShapes compares with the generic engine, bit for bit.
func TestShapes(t *testing.T) {
	m, err := module()
	if err != nil {
		t.Fatal(err)
	}
	launched, ran := map[string]int{}, 0
	for _, s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			ran++
			kinds, err := s.compare([]*ptx.Module{m})
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range strings.Fields(s.kernels) {
				if kinds["eusn_"+k] == 0 {
					t.Errorf("launched %v, want eusn_%s among them", kinds, k)
				}
			}
			for k, n := range kinds {
				launched[k] += n
			}
		})
	}
	for _, name := range Names {
		if launched[name] == 0 && !strings.Contains(name, "tensor") && ran == len(shapes) { // not a selection by -run
			t.Errorf("no shape launched %s", name)
		}
	}
}

// compare runs calls on both engines and returns the kernels launched, and the
// first difference.
func (s *shape) compare(modules []*ptx.Module) (kinds map[string]int, err error) {
	spec, blind := s.spec, s.spec.Input == reservoir.Dist{}
	if blind { // Draw refuses such a network
		spec.Input = reservoir.Fixed(1)
	}
	net, err := reservoir.Draw(spec)
	if err != nil {
		return nil, err
	}
	for _, m := range net.Members {
		if blind {
			clear(m.Input)
			clear(m.Bias)
		}
	}
	rng := rand.New(rand.NewPCG(uint64(len(s.name)), 1))
	for c := range s.spec.Channels {
		net.Norm.Mean[c], net.Norm.Scale[c], net.Norm.Diff[c] = rng.Float32()-.5, rng.Float32()+.5, rng.Float32()+1
	}
	want, err := cpu.New(net, shapeSlots, cpu.Options{Kind: cpu.Generic})
	if err != nil {
		return nil, err
	}
	got, err := newEngine(modules, net, shapeSlots, shapeSlots, s.device)
	if err != nil {
		return nil, err
	}
	if s.streamed {
		got.program.fits = nil
		got.buffers.Work, _ = got.mem.Alloc(got.program.WorkBytes(shapeSlots))
	}
	if err := s.warm(rng, want, got); err != nil {
		return nil, err
	}
	for call, classes := range [][]int{{2, 11}, {2, 11}, nil, {3}} {
		if call != 1 {
			readouts := randomReadouts(rng, s.spec.FeatureCount(), classes)
			if err := errorOf(want.SetReadouts(readouts), got.SetReadouts(readouts)); err != nil {
				return nil, err
			}
		}
		inputs, runs := s.call(rng, call)
		a, b := make([]float32, len(runs)*want.ScoreWidth()), make([]float32, len(runs)*want.ScoreWidth())
		if err := errorOf(want.Advance(inputs, runs, a), got.Advance(inputs, runs, b)); err != nil {
			return nil, fmt.Errorf("call %d: %w", call, err)
		}
		for i := range a {
			if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
				return nil, fmt.Errorf("call %d: score %d is %x, generic has %x", call, i, b[i], a[i])
			}
		}
		if err := sameStates(want, got); err != nil {
			return nil, fmt.Errorf("call %d: %w", call, err)
		}
	}
	return got.kinds, nil
}

func errorOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// warm starts half of the slots with 200 to 300 earlier samples, so that
// low-level sums are about to be folded, and other slots with fewer.
func (s *shape) warm(rng *rand.Rand, want reservoir.Engine, got *ptxEngine) error {
	long := 300
	thin := s.spec.Kind == reservoir.Mixed // at 32768 samples sums are halved
	if s.spec.Units > 100 {                // the generic engine would take seconds
		long = 3
	} else if thin {
		long = 30
	}
	inputs := samples(rng, long*s.spec.Channels)
	state := make([]uint32, engine.LayoutOf(s.spec).Words)
	l := engine.LayoutOf(s.spec)
	for slot := range shapeSlots {
		n := rng.IntN(3)
		if slot%2 == 0 {
			n = long - rng.IntN(long/3+1)
		}
		if err := want.Advance(inputs, []reservoir.Run{{Slot: int32(slot), To: int32(n)}}, nil); err != nil {
			return err
		}
		if err := want.ReadState(int32(slot), state); err != nil {
			return err
		}
		if thin && slot%4 == 0 {
			state[0] = uint32(32768<<(slot%3) - rng.IntN(12))
		}
		if long == 3 && slot%2 == 0 { // only the count decides when to fold
			state[0] = uint32(250 + rng.IntN(6))
			if l.Positive >= 0 {
				state[l.Member(0)+l.Positive] = state[0]
			}
		}
		if err := errorOf(want.WriteState(int32(slot), state), got.WriteState(int32(slot), state)); err != nil {
			return err
		}
	}
	return nil
}

// call returns ragged runs: nearly every slot once, some runs empty, then a few
// slots repeatedly, with resets and emits.
func (s *shape) call(rng *rand.Rand, call int) (inputs []float32, runs []reservoir.Run) {
	most := 12
	if s.spec.Units > 100 {
		most = 4
	}
	taken := 0
	add := func(slot int) {
		n := rng.IntN(most + 1)
		runs = append(runs, reservoir.Run{
			Slot: int32(slot), Reset: rng.IntN(5) == 0, Emit: rng.IntN(3) > 0, From: int32(taken), To: int32(taken + n),
		})
		taken += n
		if rng.IntN(6) == 0 { // samples may be shared
			taken -= rng.IntN(n + 1)
		}
	}
	slots := rng.Perm(shapeSlots)
	if call == 3 {
		slots = slots[:9]
	}
	for _, slot := range slots {
		add(slot)
	}
	for range 5 {
		add(slots[rng.IntN(len(slots))])
	}
	last := 0
	for _, r := range runs {
		last = max(last, int(r.To))
	}
	return samples(rng, last*s.spec.Channels), runs
}

// samples have zeros of both signs, and values far beyond tanh's bend.
func samples(rng *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(rng.NormFloat64() * math.Exp(rng.NormFloat64()))
		switch rng.IntN(40) {
		case 0:
			v[i] = float32(math.Copysign(0, rng.NormFloat64()))
		case 1:
			v[i] *= 1e10
		}
	}
	return v
}

func randomReadouts(rng *rand.Rand, features int, classes []int) []*readout.Linear {
	var readouts []*readout.Linear
	for i, n := range classes {
		h := &readout.Linear{Name: fmt.Sprint(i), Classes: strings.Split(strings.Repeat("c ", n-1)+"c", " ")}
		for _, v := range []struct {
			to *[]float32
			n  int
		}{{&h.Center, features}, {&h.Weights, h.Columns() * features}, {&h.Intercept, h.Columns()}} {
			*v.to = make([]float32, v.n)
			for i := range *v.to {
				(*v.to)[i] = float32(rng.NormFloat64())
			}
		}
		if i%2 == 0 { // with limits exceeded by about a third of the features
			h.Limit = make([]float32, features)
			for j := range h.Limit {
				h.Limit[j] = float32(math.Exp(2 * rng.NormFloat64()))
			}
		}
		readouts = append(readouts, h)
	}
	return readouts
}

func sameStates(want reservoir.Engine, got *ptxEngine) error {
	a, b := make([]uint32, got.program.StateWords()), make([]uint32, got.program.StateWords())
	for slot := range shapeSlots {
		if err := errorOf(want.ReadState(int32(slot), a), got.ReadState(int32(slot), b)); err != nil {
			return err
		}
		if slices.Equal(a, b) {
			continue
		}
		for w := range a {
			if a[w] != b[w] {
				return fmt.Errorf("slot %d, word %d is %#x, generic has %#x", slot, w, b[w], a[w])
			}
		}
	}
	return nil
}

// FuzzShapes compares random networks, on devices that do not exist.
func FuzzShapes(f *testing.F) {
	for seed := range uint64(3) {
		f.Add(seed)
	}
	m, err := module()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 5))
		kinds := []reservoir.Kind{reservoir.EuSN, reservoir.EuSN, reservoir.ESN, reservoir.RESN}
		s := shape{name: fmt.Sprint(seed), streamed: rng.IntN(2) == 0, device: Device{Multiprocessors: 1 + rng.IntN(40), SharedPerBlock: 48<<10 + rng.IntN(20<<10)}}
		s.spec = eusn(kinds[rng.IntN(len(kinds))], 1+rng.IntN(20), 1+rng.IntN(50))
		s.spec.Seed, s.spec.Members, s.spec.Subset = seed, 1+rng.IntN(3), rng.IntN(12)
		s.spec.Standardize, s.spec.Difference = rng.IntN(2) == 0, rng.IntN(2) == 0
		if s.spec.Kind == reservoir.EuSN {
			s.spec.Eps = reservoir.Dist{Lo: 1e-3, Hi: 1}
		}
		if rng.IntN(3) > 0 {
			s.spec.Features = nil
			for _, i := range rng.Perm(len(reservoir.AllFeatures))[:1+rng.IntN(5)] {
				s.spec.Features = append(s.spec.Features, reservoir.AllFeatures[i])
			}
		}
		if _, err := s.compare([]*ptx.Module{m}); err != nil {
			t.Errorf("%+v on %+v: %v", s.spec, s.device, err)
		}
	})
}
