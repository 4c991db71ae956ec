package reservoir

import (
	"math"

	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir/internal/kernel"
)

// Vector is the CPU engine on vector instructions: tiles of streams side by
// side in vector lanes (package internal/kernel), dealt out to worker threads.
// It equals Generic bit for bit.
type Vector struct {
	pool
	book     []slot
	readouts []linear
	width    int

	// Fields of net.Spec that every call needs.
	units, channels, inputs, features int
	transforms                        bool      // inputs are not the samples themselves
	far                               bool      // states are in memory more than in a cache
	kept                              []Feature // in canonical order
	sums                              []accumulator

	set     *kernel.Set
	shapes  [shapes]shape
	members []member
	singles int // up to this many streams are advanced one by one,
	narrows int // up to this many in a narrow tile, more in a wide one
	plan    plan
	gang    gang
}

// slot is what every call asks about a slot apart from its state: of random slots as
// much as can be in a cache.
type slot struct {
	steps uint32 // samples since the reset, at most MaxSteps: the state's first words
	call  uint32 // the last call with a run of this slot; see plan
}

var _ Engine = (*Vector)(nil)

// newVector makes an engine with a pool of slots, all reset.
func newVector(net *Network, slots int, set *kernel.Set, threads int) (*Vector, error) {
	p, err := newPool(net, slots)
	if err != nil {
		return nil, err
	}
	s := net.Spec
	v := &Vector{pool: p, set: set, book: make([]slot, slots)}
	v.units, v.channels, v.inputs, v.features = s.Units, s.Channels, s.Inputs(), s.FeatureCount()
	v.transforms = s.Standardise || s.Difference
	v.far = 4*len(v.states) > nearBytes
	for _, f := range AllFeatures {
		if s.Has(f) {
			v.kept = append(v.kept, f)
		}
	}
	v.sums, v.shapes = v.layout.sums(), shapesOf(set, s.Kind)
	for i := range net.Members {
		v.members = append(v.members, packMember(v, &net.Members[i]))
	}
	v.singles, v.narrows = singleStreams(&v.net.Spec, set), set.Narrow.Lanes
	v.plan.init(v, threads)
	v.gang.start(v, threads)
	return v, nil
}

// Name implements Engine.
func (v *Vector) Name() string { return v.set.Name }

// ScoreWidth implements Engine.
func (v *Vector) ScoreWidth() int { return v.width }

// Close implements Engine. It ends the worker threads.
func (v *Vector) Close() error {
	v.gang.stop()
	v.free()
	return nil
}

// SetReadouts implements Engine.
func (v *Vector) SetReadouts(readouts []*readout.Linear) error {
	width, err := CheckReadouts(v.net, readouts)
	if err != nil {
		return err
	}
	packed := make([]linear, len(readouts))
	for i, h := range readouts {
		packed[i] = packReadout(h, v.set.Vector)
	}
	v.readouts, v.width = packed, width
	v.plan.perEmit = float64(v.features) * float64(4+width)
	return nil
}

// Advance implements Engine.
func (v *Vector) Advance(inputs []float32, runs []Run, scores []float32) error {
	allowed, plain := v.survey(inputs, runs, scores)
	if !allowed {
		if err := checkRuns(v, inputs, runs, scores); err != nil { // says why
			return err
		}
	}
	if len(inputs) > 0 && !v.set.Within(&inputs[0], len(inputs), MaxInput) {
		return CheckInputs(inputs, v.channels) // says which
	}
	if !plain {
		v.plan.cut(v.book, runs)
	}
	c := call{inputs: inputs, runs: runs, scores: scores, score: v.plan.score, emits: v.plan.emits > 0}
	for k := range v.plan.rounds() {
		c.items, c.threads = v.plan.items(runs, k)
		v.gang.do(&c)
	}
	return nil
}

// survey looks at every run once. A call is allowed if checkRuns has nothing to
// say. It is plain if it needs no further planning: one run a slot and none
// longer than the one before. Then it is planned.
func (v *Vector) survey(inputs []float32, runs []Run, scores []float32) (allowed, plain bool) {
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

// Steps is what CheckCall asks for.
func (v *Vector) Steps(slot int32) uint64 { return uint64(v.book[slot].steps) }

// Features implements Engine.
func (v *Vector) Features(slot int32, dst []float32) error {
	if err := v.checkFeatures(slot, dst); err != nil {
		return err
	}
	v.featuresOf(v.state(slot), dst)
	return nil
}

// WriteState implements Engine.
func (v *Vector) WriteState(slot int32, state []uint32) error {
	if err := v.pool.WriteState(slot, state); err != nil {
		return err
	}
	v.forget()
	v.book[slot].steps = uint32(v.layout.Steps(state))
	return nil
}
