package cpu

import (
	"math"

	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// genericEngine is the engine in plain Go: the reference for every other
// engine, and the fallback if no faster engine runs.
type genericEngine struct {
	pool
	readouts []*readout.Linear
	width    int

	members  []packed
	inputs   []float64 // chunk x Inputs: transformed samples of the run in hand
	cur, nxt []float64 // one member's state, float32 values held in float64
	sample   []float32 // one transformed sample
	previous []float32 // the previous raw sample
	features []float32

	mixed *mixedSteps // kind mixed's step, instead of the fields above; else nil
}

// chunk is the number of samples of a run that are transformed before the
// members take them in turn, so that a member's weights stay in cache over many
// samples.
const chunk = 128

var _ reservoir.Engine = (*genericEngine)(nil)

// newGeneric makes an engine with a pool of slots, all reset.
func newGeneric(net *reservoir.Network, slots int) (*genericEngine, error) {
	p, err := newPool(net, slots)
	if err != nil {
		return nil, err
	}
	s := net.Spec
	if s.Kind == reservoir.Mixed {
		return &genericEngine{pool: p, features: make([]float32, s.FeatureCount()), mixed: newMixedSteps(net, p.layout)}, nil
	}
	g := &genericEngine{
		pool:     p,
		inputs:   make([]float64, chunk*s.Inputs()),
		cur:      make([]float64, padded(s.Units)),
		nxt:      make([]float64, padded(s.Units)),
		sample:   make([]float32, s.Inputs()),
		previous: make([]float32, s.Channels),
		features: make([]float32, s.FeatureCount()),
	}
	for _, m := range net.Members {
		g.members = append(g.members, pack(s, m))
	}
	return g, nil
}

// Name implements Engine.
func (g *genericEngine) Name() string { return "generic" }

// ScoreWidth implements Engine.
func (g *genericEngine) ScoreWidth() int { return g.width }

// Close implements Engine.
func (g *genericEngine) Close() error {
	g.free()
	return nil
}

// SetReadouts implements Engine.
func (g *genericEngine) SetReadouts(readouts []*readout.Linear) error {
	width, err := engine.CheckReadouts(g.net, readouts)
	if err != nil {
		return err
	}
	g.readouts, g.width = readouts, width
	return nil
}

// Advance implements Engine.
func (g *genericEngine) Advance(inputs []float32, runs []reservoir.Run, scores []float32) error {
	if err := engine.CheckCall(g, inputs, runs, scores); err != nil {
		return err
	}
	for _, r := range runs {
		state := g.state(r.Slot)
		if r.Reset {
			g.layout.Reset(g.net.Spec, state)
		}
		if g.mixed != nil {
			g.mixed.advance(state, inputs, int(r.From), int(r.To))
		} else {
			g.advanceState(state, inputs, int(r.From), int(r.To))
		}
		if r.Emit && g.width > 0 {
			g.layout.FeaturesOf(g.net.Spec, state, g.features)
			for _, h := range g.readouts {
				h.Scores(scores, g.features)
				scores = scores[h.Columns():]
			}
		}
	}
	return nil
}

// Steps returns the number of samples of a slot since its reset, for CheckCall.
func (g *genericEngine) Steps(slot int32) uint64 { return g.layout.Steps(g.state(slot)) }

// Features implements Engine.
func (g *genericEngine) Features(slot int32, dst []float32) error {
	if err := g.checkFeatures(slot, dst); err != nil {
		return err
	}
	g.layout.FeaturesOf(g.net.Spec, g.state(slot), dst)
	return nil
}

// advanceState takes samples [from, to) into one state, chunk by chunk.
func (g *genericEngine) advanceState(state []uint32, inputs []float32, from, to int) {
	c := g.net.Spec.Channels
	steps := g.layout.Steps(state)
	for from < to {
		n := min(chunk, to-from)
		for t := range n {
			g.transform(state, inputs[(from+t)*c:(from+t+1)*c], t, steps+uint64(t) == 0)
		}
		for r := range g.members {
			m := g.layout.Member(r)
			g.advanceMember(&g.members[r], state[m:m+g.layout.MemberWords], n, steps)
		}
		from += n
		steps += uint64(n)
	}
	g.layout.SetSteps(state, steps)
}

// transform puts one sample's transformed inputs into place t of the chunk and
// the sample into the state.
func (g *genericEngine) transform(state []uint32, sample []float32, t int, first bool) {
	var previous []float32
	if at := g.layout.Previous; at >= 0 {
		for i, v := range sample {
			g.previous[i] = math.Float32frombits(state[at+i])
			state[at+i] = math.Float32bits(v)
		}
		if !first {
			previous = g.previous
		}
	}
	x := len(g.sample)
	g.net.Transform(g.sample, sample, previous)
	for i, v := range g.sample {
		g.inputs[t*x+i] = float64(v)
	}
}
