package cpu

import (
	"fmt"
	"math"

	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/internal/judge"
	"github.com/eusn-stream/eusn-stream/internal/kernel"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/readout/novelty"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// vectorPool is the common part of the engines on vector kernels: a pool of slots,
// readouts, and the division of a call into items of work for worker threads.
type vectorPool struct {
	pool
	set        *kernel.Set
	book       []slot
	readouts   []linear
	width      int
	detectors  []*judge.Detector
	beside     *judge.Beside // the first readout and the first detector, if computed together; or nil
	judges     int           // values of all detectors for a run: each detector's score, then its inputs
	judged     []float32     // values for the last call's emitting runs
	channels   int
	features   int
	far        bool // states are in memory more than in a cache
	featuresOf func(state []uint32, dst []float32)
	plan       plan
	gang       gang
}

// slot is the data of a slot that every call reads, apart from its state: small, so
// that a cache holds many random slots.
type slot struct {
	steps uint32 // samples since the reset, at most MaxSteps: the state's first words
	call  uint32 // the last call with a run of this slot; see plan
}

// nearBytes of states fit into a level 2 cache together with the weights.
const nearBytes = 128 << 10

// init makes slots, all reset; plan and threads are to follow.
func (v *vectorPool) init(net *reservoir.Network, slots int, set *kernel.Set) (err error) {
	if v.pool, err = newPool(net, slots); err != nil {
		return err
	}
	v.set, v.book = set, make([]slot, slots)
	v.channels, v.features = net.Spec.Channels, net.Spec.FeatureCount()
	v.far = 4*len(v.states) > nearBytes
	return nil
}

// Name implements Engine.
func (v *vectorPool) Name() string { return v.set.Name }

// ScoreWidth implements Engine.
func (v *vectorPool) ScoreWidth() int { return v.width }

// Close implements Engine. It ends the worker threads.
func (v *vectorPool) Close() error {
	v.gang.stop()
	v.free()
	return nil
}

// SetReadouts implements Engine.
func (v *vectorPool) SetReadouts(readouts []*readout.Linear) error {
	width, err := engine.CheckReadouts(v.net, readouts)
	if err != nil {
		return err
	}
	v.readouts, v.width = packReadouts(readouts, v.set), width
	v.plan.perEmit = float64(v.features) * float64(4+width)
	v.pair()
	return nil
}

// pair arranges a readout and a detector that are computed together.
func (v *vectorPool) pair() {
	v.beside = nil
	if len(v.detectors) > 0 && len(v.readouts) > 0 && v.readouts[0].apart == nil {
		v.beside = judge.PackBeside(v.detectors[0], v.readouts[0].Linear, v.set)
	}
}

// SetDetectors implements Judging.
func (v *vectorPool) SetDetectors(detectors []*novelty.Detector) error {
	for _, d := range detectors {
		if d.Features() != v.features {
			return fmt.Errorf("reservoir: a detector of %d features, the network has %d", d.Features(), v.features)
		}
	}
	v.detectors, v.judges = nil, 0
	for _, d := range detectors {
		v.detectors = append(v.detectors, judge.Pack(d, v.set))
		v.judges += 1 + d.InputValues()
	}
	v.pair()
	return nil
}

// Judged implements Judging.
func (v *vectorPool) Judged(emitted, detector int) (score float32, inputs []float32) {
	at := emitted * v.judges
	for _, d := range v.detectors[:detector] {
		at += 1 + d.Plain.InputValues()
	}
	return v.judged[at], v.judged[at+1 : at+1+v.detectors[detector].Plain.InputValues()]
}

// Advance implements Engine.
func (v *vectorPool) Advance(inputs []float32, runs []reservoir.Run, scores []float32) error {
	allowed, plain := v.survey(inputs, runs, scores)
	if !allowed {
		if err := engine.CheckRuns(v, inputs, runs, scores); err != nil { // returns the reason
			return err
		}
	}
	if len(inputs) > 0 && !v.set.Within(&inputs[0], len(inputs), reservoir.MaxInput) {
		return engine.CheckInputs(inputs, v.channels) // names the sample
	}
	if !plain {
		v.plan.cut(v.book, runs)
	}
	if n := v.plan.emits * v.judges; n > len(v.judged) {
		v.judged = make([]float32, n+n/2)
	}
	c := call{inputs: inputs, runs: runs, scores: scores, judged: v.judged, score: v.plan.score, emits: v.plan.emits > 0}
	for k := range v.plan.rounds() {
		c.items, c.threads = v.plan.items(runs, k)
		v.gang.do(&c)
	}
	return nil
}

// survey inspects every run once. A call is allowed if checkRuns would accept
// it. A call is plain if it needs no further planning: one run a slot, in order
// of length, longest first. Then survey plans the call.
func (v *vectorPool) survey(inputs []float32, runs []reservoir.Run, scores []float32) (allowed, plain bool) {
	samples := len(inputs)
	if v.channels > 1 {
		samples /= v.channels
	}
	if samples*v.channels != len(inputs) || samples > math.MaxInt32 {
		return false, false
	}
	p := &v.plan
	p.begin(v.book, len(runs))
	emits, allowed, plain := lookAt(v.book, p.score, p.call, samples, runs)
	if plain {
		p.plain(len(runs), emits)
	}
	return allowed && len(scores) >= emits*v.width, plain
}

// Steps returns the number of samples of a slot for CheckCall.
func (v *vectorPool) Steps(slot int32) uint64 { return uint64(v.book[slot].steps) }

// Features implements Engine.
func (v *vectorPool) Features(slot int32, dst []float32) error {
	if err := v.checkFeatures(slot, dst); err != nil {
		return err
	}
	v.featuresOf(v.state(slot), dst)
	return nil
}

// WriteState implements Engine.
func (v *vectorPool) WriteState(slot int32, state []uint32) error {
	if err := v.pool.WriteState(slot, state); err != nil {
		return err
	}
	v.gang.forget()
	v.book[slot].steps = uint32(v.layout.Steps(state))
	return nil
}
