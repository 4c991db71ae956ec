package alarm

import (
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/drift"
	"github.com/eusn-stream/eusn-stream/readout/novelty"
)

// series is the condition of kind drift: one number of each prediction, or several, which
// package drift watches. A prediction is on when one of them is found to have changed.
type series struct {
	signal         string // probability, score, novelty, class, interval or inputs
	class          string
	kind           int // of inputs: index into novelty.InputNames; -1: all
	between, shift float64
	plan           drift.Plan
	plans          map[int]drift.Plan // by how many series share the false alarms
}

// What a rule of kind drift says where it says nothing else.
const (
	defaultBetween = 1e6
	defaultShift   = .5
)

func parseSeries(c clause) (*series, error) {
	s := &series{between: defaultBetween, shift: defaultShift, kind: -1}
	if len(c) > 0 && !c[0].quoted {
		s.signal = c[0].text
	}
	switch {
	case len(c) == 1 && slices.Contains([]string{"probability", "score", "novelty", "interval"}, s.signal):
	case len(c) == 2 && s.signal == "class" && c[1].text != "|":
		s.class = c[1].text
	case len(c) == 1 && s.signal == "inputs":
	case len(c) == 2 && s.signal == "inputs" && slices.Contains(novelty.InputNames[:], c[1].text):
		s.kind = slices.Index(novelty.InputNames[:], c[1].text)
	default:
		return nil, fmt.Errorf("%q behind drift, want probability, score, novelty, interval, inputs, inputs and one of %s, or class and one name", c.String(), strings.Join(novelty.InputNames[:], ", "))
	}
	return s, s.settle()
}

// clause reads between or shift.
func (s *series) clause(what, text string) error {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return fmt.Errorf("%s is %q, want a number", what, text)
	}
	if what == "between" {
		s.between = x
	} else {
		s.shift = x
	}
	return s.settle()
}

func (s *series) settle() (err error) {
	s.plan, err = drift.NewPlan(s.between, s.shift)
	s.plans = map[int]drift.Plan{}
	return err
}

// shared is the plan of n series that have the false alarms of one together.
func (s *series) shared(n int) drift.Plan {
	p, known := s.plans[n]
	if !known {
		p, _ = drift.NewPlan(min(s.between*float64(n), drift.MostBetween), s.shift) // settle refuses what is wrong
		s.plans[n] = p
	}
	return p
}

// count is how many series there are of a prediction's stream.
func (s *series) count(p *codec.Prediction) int {
	switch {
	case s.signal != "inputs":
		return 1
	case s.kind < 0:
		return len(p.Inputs)
	}
	return len(p.Inputs) / novelty.InputsOf
}

// more is how many series a key has more with a prediction; c is nil where it has none. The
// inputs of a stream may come later than its first prediction, which may be an early one.
func (s *series) more(c *counter, p *codec.Prediction) int {
	switch n := max(1, s.count(p)); {
	case c == nil:
		return n
	case s.signal != "inputs" || len(p.Inputs) == 0:
		return 0
	default:
		return n - c.series()
	}
}

// series is how many there are of a key of a rule of kind drift.
func (c *counter) series() int { return max(1, len(c.Inputs)) }

// inputs adds a prediction to the series of its inputs.
func (s *series) inputs(c *counter, p *codec.Prediction) (on, off bool) {
	n := s.count(p)
	if n == 0 {
		return false, false
	}
	if len(c.Inputs) != n { // the first prediction, or another model
		c.Inputs = make([]drift.Detector, n)
	}
	plan, u, change := s.shared(n), place(p), ""
	for k := range c.Inputs {
		of := k
		if s.kind >= 0 {
			of = k*novelty.InputsOf + s.kind
		}
		v := c.Inputs[k].Update(plan, p.Inputs[of], mixed(u+uint64(k)))
		if v == 0 {
			continue
		}
		if change != "" {
			change += ", "
		}
		change += fmt.Sprintf("channel %d %s %s", of/novelty.InputsOf, novelty.InputNames[of%novelty.InputsOf], v)
	}
	if change != "" {
		c.Change = change
	}
	return change != "", change == ""
}

// Judge is Condition's: without what came before, nothing has changed.
func (s *series) Judge(*codec.Prediction, string) (on, off bool) { return false, true }

// judge adds a prediction to the series of a counter.
func (s *series) judge(c *counter, p *codec.Prediction, class string) (on, off bool) {
	var x float32
	switch s.signal {
	case "inputs":
		return s.inputs(c, p)
	case "probability":
		if p.Probability == 0 {
			return false, false
		}
		x = p.Probability
	case "score":
		x = p.Score
	case "novelty":
		if p.NoveltyP == 0 {
			return false, false
		}
		x = p.Novelty
	case "class":
		if class == s.class {
			x = 1
		}
	case "interval":
		if p.Time == codec.NoTime {
			return false, false
		}
		before := c.Before
		if c.Before = p.Time; before == 0 {
			return false, false
		}
		x = float32(float64(p.Time-before) / 1e9)
	}
	if c.Drift == nil {
		c.Drift = new(drift.Detector)
	}
	v := c.Drift.Update(s.plan, x, place(p))
	if v != 0 {
		c.Change = v.String()
	}
	return v != 0, v == 0
}

// MostSeries is how many series rules of kind drift may have in all. Keys that come later
// have no alarm of drift. Each takes up to 4 kB of the state, which is stored as a whole.
const MostSeries = 20_000

// Crowded reports once that there are more series for rules of kind drift than MostSeries.
func (f *Fold) Crowded() bool {
	now := f.crowded && !f.told
	f.told = f.told || now
	return now
}

func (f *Fold) countSeries() {
	f.series = 0
	for which := range f.counters {
		if r := f.rules.named(which.rule); r != nil && r.Kind == kindDrift {
			f.series += f.counters[which].series()
		}
	}
}

// place is a number that has nothing to do with what a prediction says: a hash of which
// it is.
func place(p *codec.Prediction) uint64 {
	h := fnv.New64a()
	h.Write([]byte(p.Stream))
	x := h.Sum64() ^ p.Seq*0x9e3779b97f4a7c15 ^ uint64(p.Row)<<32
	return mixed(x)
}

// mixed is the last step of SplitMix64 (Steele, Lea and Flood 2014): each bit of x moves half
// of the result's.
func mixed(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// errSeries is that of clauses that count predictions.
var errSeries = errors.New("drift counts no single predictions: of its clauses only between, shift, clear after, hold, quiet, streams, by and final are possible")
