package cpu

import (
	"math"

	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/internal/kernel"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// vectorEngine is the CPU engine on vector instructions for the kinds with a tanh:
// tiles of streams in parallel vector lanes (package internal/kernel). It equals
// Generic bit for bit.
type vectorEngine struct {
	vectorPool

	// Fields of net.Spec that every call needs.
	units, inputs int
	transforms    bool                // inputs are not the samples themselves
	kept          []reservoir.Feature // in canonical order
	sums          []accumulator

	shapes  [shapes]shape
	members []member
	singles int // up to this many streams are advanced one by one,
	narrows int // up to this many in a narrow tile, more in a wide tile
}

var _ engine.Judging = (*vectorEngine)(nil)

// newVector makes an engine with a pool of slots, all reset.
func newVector(net *reservoir.Network, slots int, set *kernel.Set, threads int) (*vectorEngine, error) {
	v := &vectorEngine{}
	if err := v.init(net, slots, set); err != nil {
		return nil, err
	}
	s := net.Spec
	v.units, v.inputs = s.Units, s.Inputs()
	v.transforms = s.Standardize || s.Difference
	for _, f := range reservoir.AllFeatures {
		if s.Has(f) {
			v.kept = append(v.kept, f)
		}
	}
	v.sums, v.shapes = sumsOf(&v.layout), shapesOf(set, s.Kind)
	for i := range net.Members {
		v.members = append(v.members, packMember(v, &net.Members[i]))
	}
	v.singles, v.narrows = singleStreams(&v.net.Spec, set), set.Narrow.Lanes
	v.featuresOf = v.writeFeatures
	v.plan.init(slots, threads, set.Vector)
	v.planTiles()
	v.gang.start(threads, func() itemWorker { return newWorker(v) })
	return v, nil
}

// planTiles gives the plan the size of a tile and the cost of a sample.
func (v *vectorEngine) planTiles() {
	p, s := &v.plan, &v.net.Spec
	p.lanes, p.members = v.set.Tile, s.Members
	if v.set.Rows >= 8 && p.lanes == v.set.Wide.Lanes { // half a tile has products enough to hide their latency
		p.tiling = halfTiles
		if s.Members > 1 {
			p.tiling = bankTiles
		}
	}
	recurrent := s.Units
	if s.Kind == reservoir.RESN {
		p.lanes = v.set.Wide.Lanes
		if v.set.Rows >= 8 { // units of four cycles, two a cycle
			p.tiling = halfTiles
		}
		recurrent = 20 // one product, and the same for tanh and loop
	}
	p.perSample = float64(s.Members) * float64(s.Units) * float64(recurrent+s.Inputs())
}

// writeFeatures is Layout.FeaturesOf by vector kernels.
func (v *vectorEngine) writeFeatures(state []uint32, dst []float32) {
	l, n, set := &v.layout, v.units, v.set
	steps := l.Steps(state)
	if steps == 0 || steps > math.MaxInt32 { // Share's counts
		l.FeaturesOf(v.net.Spec, state, dst)
		return
	}
	count := float32(int64(steps))
	for r := range v.members {
		m := state[l.Member(r):]
		for _, f := range v.kept {
			out := &dst[0]
			switch f {
			case reservoir.Last:
				copy(dst[:n], floatsOf(m[l.State:], n))
			case reservoir.Mean:
				set.Features.Mean(out, &m[l.SumHigh], &m[l.SumLow], n, count)
			case reservoir.Positive:
				set.Features.Share(out, &m[l.Positive], n, count)
			case reservoir.Max:
				copy(dst[:n], floatsOf(m[l.Max:], n))
			case reservoir.Std:
				set.Features.Deviation(out, &m[l.SumHigh], &m[l.SumLow], &m[l.SquareHigh], &m[l.SquareLow], n, count)
			}
			dst = dst[n:]
		}
	}
}
