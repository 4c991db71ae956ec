package figures

import "math"

// Portraits are Fig. 1: reservoirs of two units without input.
type Portraits struct{ Panels []Portrait }

// Portrait is one reservoir: h' = keep h + gain tanh(M h).
type Portrait struct {
	Model  string // in a CSV file
	Title  string
	m      [2][2]float64
	keep   float64
	gain   float64
	Orbits []Orbit
}

// Orbit is the path from an initial state.
type Orbit struct {
	Start  string       // the paper's name of the state
	Points [][2]float64 // the states of the steps 0, PhaseEvery, 2 PhaseEvery, ...
}

// Lengths of an orbit, in steps.
const (
	PhaseSteps = 20000
	PhaseEvery = 25
)

// NewPortraits computes Fig. 1 with the paper's matrices: leak rate .001, eps =
// gamma = .001.
func NewPortraits() *Portraits {
	const leak, eps, gamma = .001, .001, .001
	leaky := func(model, title string, wh [2][2]float64) Portrait {
		return Portrait{Model: model, Title: title, m: wh, keep: 1 - leak, gain: leak}
	}
	f := &Portraits{[]Portrait{
		leaky("esn-esp", "ESN, echo state property holds", [2][2]float64{{.7, -.1}, {.1, .7}}),
		leaky("esn-no-esp", "ESN, echo state property does not hold", [2][2]float64{{1.7, -.1}, {.1, 1.7}}),
		leaky("resn", "R-ESN", [2][2]float64{{0, 1}, {1, 0}}),
		{Model: "eusn", Title: "EuSN", m: [2][2]float64{{-gamma, -1.5}, {1.5, -gamma}}, keep: 1, gain: eps},
	}}
	for i := range f.Panels {
		p := &f.Panels[i]
		for _, start := range []struct {
			name string
			h    [2]float64
		}{{"u0", [2]float64{.1, .1}}, {"v0", [2]float64{-.3, .1}}, {"z0", [2]float64{0, -.5}}} {
			p.Orbits = append(p.Orbits, Orbit{start.name, p.orbit(start.h)})
		}
	}
	return f
}

// step is one step of the reservoir.
func (p *Portrait) step(h [2]float64) [2]float64 {
	var next [2]float64
	for i := range next {
		next[i] = p.keep*h[i] + p.gain*math.Tanh(p.m[i][0]*h[0]+p.m[i][1]*h[1])
	}
	return next
}

func (p *Portrait) orbit(h [2]float64) [][2]float64 {
	points := [][2]float64{h}
	for t := 1; t <= PhaseSteps; t++ {
		if h = p.step(h); t%PhaseEvery == 0 {
			points = append(points, h)
		}
	}
	return points
}

// CSV returns a line per stored state.
func (f *Portraits) CSV() []byte {
	t := newTable("model", "start", "step", "h1", "h2")
	for _, p := range f.Panels {
		for _, o := range p.Orbits {
			for i, h := range o.Points {
				t.addRow(p.Model, o.Start, i*PhaseEvery, h[0], h[1])
			}
		}
	}
	return t.bytes()
}
