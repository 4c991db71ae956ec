package reservoir

import (
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir/internal/kernel"
)

// Vector is the CPU engine on vector instructions: tiles of streams side by
// side in vector lanes (package internal/kernel), dealt out to worker threads.
// It equals Generic bit for bit.
type Vector struct {
	pool
	taken []uint64 // samples of each slot: the rows' first words, but dense
	heads []head
	width int

	// What of net.Spec every call needs.
	units, features int
	kept            []Feature // in canonical order

	set     *kernel.Set
	members []kernel.Member
	singles int // up to so many streams are advanced one by one,
	narrows int // up to so many in a narrow tile, more in a wide one
	plan    plan
	gang    gang
}

var _ Engine = (*Vector)(nil)

// newVector makes an engine with a pool of slots, all reset.
func newVector(net *Network, slots int, set *kernel.Set, threads int) (*Vector, error) {
	p, err := newPool(net, slots)
	if err != nil {
		return nil, err
	}
	s := net.Spec
	v := &Vector{pool: p, set: set, taken: make([]uint64, slots)}
	v.units, v.features = s.Units, s.FeatureCount()
	for _, f := range AllFeatures {
		if s.Has(f) {
			v.kept = append(v.kept, f)
		}
	}
	for _, m := range net.Members {
		v.members = append(v.members, set.Pack(s.Units, len(m.Inputs), m.Bias, m.Input, m.Recurrent, s.Kind == RESN))
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

// SetHeads implements Engine.
func (v *Vector) SetHeads(heads []*readout.Linear) error {
	width, err := CheckHeads(v.net, heads)
	if err != nil {
		return err
	}
	packed := make([]head, len(heads))
	for i, h := range heads {
		packed[i] = packHead(h, v.set.Vector)
	}
	v.heads, v.width = packed, width
	v.plan.perEmit = float64(v.features) * float64(4+width)
	return nil
}

// Advance implements Engine.
func (v *Vector) Advance(inputs []float32, runs []Run, scores []float32) error {
	if !v.allowed(inputs, runs, scores) {
		if err := checkRuns(v, inputs, runs, scores); err != nil { // says why
			return err
		}
	}
	if len(inputs) > 0 && !v.set.Within(&inputs[0], len(inputs), MaxInput) {
		return CheckInputs(inputs, v.net.Spec.Channels) // says which
	}
	v.plan.cut(runs)
	for k := range v.plan.rounds() {
		items, threads := v.plan.items(runs, k)
		v.gang.do(call{inputs: inputs, runs: runs, scores: scores, score: v.plan.score, items: items, threads: threads})
	}
	return nil
}

// allowed reports whether checkRuns has nothing to say, without a call for each
// run.
func (v *Vector) allowed(inputs []float32, runs []Run, scores []float32) bool {
	rows, odd := len(inputs)/v.net.Spec.Channels, len(inputs)%v.net.Spec.Channels
	emits := 0
	ok := odd == 0
	for i := range runs {
		r := &runs[i]
		ok = ok && uint(r.Slot) < uint(len(v.taken)) && r.From >= 0 && r.To >= r.From && int(r.To) <= rows && v.taken[r.Slot]+uint64(rows) <= MaxSteps
		if r.Emit {
			emits++
		}
	}
	return ok && len(scores) >= emits*v.width
}

// Steps is what CheckCall asks for.
func (v *Vector) Steps(slot int) uint64 { return v.taken[slot] }

// Features implements Engine.
func (v *Vector) Features(slot int, dst []float32) error {
	if err := v.checkFeatures(slot, dst); err != nil {
		return err
	}
	v.featuresOf(v.row(slot), dst)
	return nil
}

// WriteRow implements Engine.
func (v *Vector) WriteRow(slot int, row []uint32) error {
	if err := v.pool.WriteRow(slot, row); err != nil {
		return err
	}
	v.taken[slot] = v.layout.Steps(row)
	return nil
}
