package paper

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// walkSeries is the number of series computed at the same time: whole tiles of every
// vector engine, and few enough that their states stay in cache.
const walkSeries = 64

// walk runs the listed series through networks in layers, a sample at a time: the input
// of a layer is the state of the previous layer at the same sample, the input of the
// first layer is the series. Series k starts after lead[k] samples p.first, which are
// walked once for all series; an empty lead means no prefixes. After each sample walk
// calls take with the number of samples walked before it, the positions in the list of
// the series that have the sample, and their states, a row each, layer after layer. The
// order of positions does not depend on the engine; live and states belong to walk.
func (p *problem) walk(ctx context.Context, specs []reservoir.Spec, open openEngine, series, lead []int, take func(t int, live []int, states []float32) error) (err error) {
	engines, err := newStack(specs, open, min(walkSeries, len(series)))
	defer func() { err = errors.Join(err, engines.close()) }()
	if err != nil {
		return err
	}
	if lead == nil {
		lead = make([]int, len(series))
	}
	states := make([]float32, walkSeries*countStates(specs))
	begin, err := engines.statesAfter(ctx, lead, p.first, states)
	if err != nil {
		return err
	}

	length := func(k int) int { return p.to[series[k]] - p.from[series[k]] - lead[k] }
	order := make([]int, len(series))
	for k := range order {
		order[k] = k
	}
	// Series of a block end together, so that its tiles stay full.
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(length(b), length(a)) })

	var inputs []float32
	runs := make([]reservoir.Run, 0, walkSeries)
	for live := range slices.Chunk(order, walkSeries) {
		for n, k := range live {
			if err := engines.writeStates(int32(n), begin[lead[k]]); err != nil {
				return err
			}
		}
		for t := range length(live[0]) {
			if err := ctx.Err(); err != nil {
				return err
			}
			for length(live[len(live)-1]) <= t {
				live = live[:len(live)-1]
			}
			runs, inputs = runs[:0], inputs[:0]
			for n, k := range live {
				runs = append(runs, reservoir.Run{Slot: int32(n), Reset: t == 0 && lead[k] == 0, From: int32(n), To: int32(n + 1)})
				at := (p.from[series[k]] + lead[k] + t) * p.channels
				inputs = append(inputs, p.inputs[at:at+p.channels]...)
			}
			if inputs, err = engines.step(inputs, runs, states); err != nil {
				return err
			}
			if err := take(t, live, states[:len(live)*countStates(specs)]); err != nil {
				return err
			}
		}
	}
	return nil
}

// leads returns the prefixes that a walk of the listed series shares: none if sharing
// saves no time. One sample of each prefix is left, after which the series has a state.
func (p *problem) leads(series []int) []int {
	lead := make([]int, len(series))
	if p.isWorthSharing(series) {
		for k, i := range series {
			lead[k] = min(p.lead[i], p.to[i]-p.from[i]-1)
		}
	}
	return lead
}

// stack is the engines of networks in layers.
type stack []reservoir.Engine

// newStack opens an engine for each network. The caller closes the result, also after an
// error.
func newStack(specs []reservoir.Spec, open openEngine, slots int) (s stack, err error) {
	for _, spec := range specs {
		net, err := reservoir.Draw(spec)
		if err != nil {
			return s, err
		}
		e, err := open(net, slots)
		if err != nil {
			return s, err
		}
		s = append(s, e)
	}
	return s, nil
}

func (s stack) close() (err error) {
	for _, e := range s {
		err = errors.Join(err, e.Close())
	}
	return err
}

// step runs a sample of each run through all layers, and copies the states of its slot
// into a row of states. It returns the inputs' memory.
func (s stack) step(inputs []float32, runs []reservoir.Run, states []float32) ([]float32, error) {
	total := 0
	for _, e := range s {
		total += e.Network().Spec.Units
	}
	at := 0 // index of the layer's states in a row
	for _, e := range s {
		if err := e.Advance(inputs, runs, nil); err != nil {
			return inputs, err
		}
		units := e.Network().Spec.Units
		inputs = inputs[:0]
		for n := range runs {
			h := states[n*total+at:][:units]
			if err := e.Features(runs[n].Slot, h); err != nil {
				return inputs, err
			}
			inputs = append(inputs, h...)
		}
		at += units
	}
	return inputs, nil
}

// statesAfter returns the layers' states after each number in lead except 0.
func (s stack) statesAfter(ctx context.Context, lead []int, first []float32, states []float32) (map[int][][]uint32, error) {
	begun := map[int][][]uint32{}
	for _, n := range lead {
		if n > 0 {
			begun[n] = nil
		}
	}
	run := []reservoir.Run{{Reset: true, To: 1}}
	var inputs []float32
	var err error
	for t := range slices.Max(lead) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		inputs = append(inputs[:0], first...)
		if inputs, err = s.step(inputs, run, states); err != nil {
			return nil, err
		}
		run[0].Reset = false
		if _, wanted := begun[t+1]; !wanted {
			continue
		}
		for _, e := range s {
			state := make([]uint32, engine.LayoutOf(e.Network().Spec).Words)
			if err := e.ReadState(0, state); err != nil {
				return nil, err
			}
			begun[t+1] = append(begun[t+1], state)
		}
	}
	return begun, nil
}

// writeStates writes the layers' states, if present, into a slot.
func (s stack) writeStates(slot int32, states [][]uint32) error {
	for l, state := range states {
		if err := s[l].WriteState(slot, state); err != nil {
			return err
		}
	}
	return nil
}
