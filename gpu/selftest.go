package gpu

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// passed records the last passed test of each device: a pool that grows needs
// no retest.
var passed struct {
	sync.Mutex
	by map[string]tested // by PCI address
}

type tested struct {
	net      *reservoir.Network
	products Products
}

// Bounds of the test: a few milliseconds of the generic engine.
const (
	testSlots   = 3
	testWeights = 1 << 24 // multiply-adds of all samples together
	testSamples = 24      // more for kind mixed with longer lags
)

// selfTest lets the device compute a few sequences of the network, and compares
// scores and states with the generic engine, bit for bit. So the test finds a
// driver that compiles a kernel wrongly, or a card that makes errors, before
// real work. The test leaves all states reset and no readouts.
func (e *Engine) selfTest() error {
	passed.Lock()
	known := passed.by[e.PCI()] == tested{e.net, e.products}
	passed.Unlock()
	if known {
		return nil
	}
	s := e.net.Spec
	weights := s.Members * s.Units * (s.Units + s.Inputs() + 1)
	samples := min(testSamples, max(4, testWeights/weights))
	if s.Kind == reservoir.Mixed { // every tap sees something
		samples = max(samples, s.Taps.MaxLag+8)
	}
	truth, err := cpu.New(e.net, testSlots, cpu.Options{Kind: cpu.Generic})
	if err != nil {
		return fmt.Errorf("gpu: self-test: %w", err)
	}
	defer truth.Close()
	compare := e.compare
	if e.products != Canonical {
		compare, samples = e.compareNearly, nearSamples
	}
	if err := compare(truth, samples); err != nil {
		return err
	}
	if err := e.SetReadouts(nil); err != nil {
		return err
	}
	if err := e.resetStates(); err != nil {
		return classify(err)
	}
	passed.Lock()
	defer passed.Unlock()
	if passed.by == nil {
		passed.by = map[string]tested{}
	}
	passed.by[e.PCI()] = tested{e.net, e.products}
	return nil
}

func (e *Engine) compare(truth reservoir.Engine, samples int) error {
	readouts := []*readout.Linear{testReadout(e.net.Spec.FeatureCount())}
	inputs := make([]float32, samples*e.channels)
	fill(inputs, 1)
	used := min(testSlots, e.slots)
	var runs []reservoir.Run
	for i := range used { // ragged, a run in two parts, a reset in between
		third := samples * (i + 1) / used
		runs = append(runs, reservoir.Run{Slot: int32(i), To: int32(third), Emit: i%2 == 0})
	}
	runs = append(runs,
		reservoir.Run{Slot: 0, From: int32(samples / 2), To: int32(samples), Emit: true},
		reservoir.Run{Slot: int32(used - 1), Reset: true, To: 1, Emit: true})
	var scores [2][]float32
	for i, g := range []reservoir.Engine{truth, e} {
		if err := g.SetReadouts(readouts); err != nil {
			return err
		}
		scores[i] = make([]float32, len(runs)*g.ScoreWidth())
		if err := g.Advance(inputs, runs, scores[i]); err != nil {
			return err
		}
	}
	differs := func(what string, want, got uint32) error {
		return fmt.Errorf("gpu: self-test on %s: %w: %s is %#x, want %#x", e.Device(), ErrSelfTest, what, got, want)
	}
	for i := range scores[0] {
		if a, b := math.Float32bits(scores[0][i]), math.Float32bits(scores[1][i]); a != b {
			return differs(fmt.Sprintf("score %d", i), a, b)
		}
	}
	want, got := make([]uint32, e.layout.Words), make([]uint32, e.layout.Words)
	for slot := range int32(used) {
		if err := truth.ReadState(slot, want); err != nil {
			return err
		}
		if err := e.ReadState(slot, got); err != nil {
			return err
		}
		if !slices.Equal(want, got) {
			i := 0
			for want[i] == got[i] {
				i++
			}
			return differs(fmt.Sprintf("word %d of state %d", i, slot), want[i], got[i])
		}
	}
	return nil
}

// testReadout is a readout with weights of every size.
func testReadout(features int) *readout.Linear {
	h := &readout.Linear{Name: "self-test", Classes: []string{"a", "b", "c"}}
	h.Center, h.Weights, h.Intercept = make([]float32, features), make([]float32, 3*features), make([]float32, 3)
	fill(h.Center, 2)
	fill(h.Weights, 3)
	fill(h.Intercept, 4)
	return h
}

// fill writes numbers in (-2, 2) determined by the seed.
func fill(v []float32, seed uint32) {
	for i := range v {
		seed = seed*1664525 + 1013904223
		v[i] = float32(int32(seed)>>8) / (1 << 22)
	}
}
