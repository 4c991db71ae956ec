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

// driftCondition is the condition of kind drift: package drift observes one or more series of
// numbers from the predictions. A prediction is on when a change is detected in a series.
type driftCondition struct {
	signal         string // probability, score, novelty, class, interval or inputs
	class          string
	kind           int // inputs: index into novelty.InputNames; -1: all
	between, shift float64
	plan           drift.Plan
	plans          map[int]drift.Plan // by the number of series that share the false alarms
}

// Defaults of a rule of kind drift.
const (
	defaultBetween = 1e6
	defaultShift   = .5
)

func parseSeries(c clause) (*driftCondition, error) {
	s := &driftCondition{between: defaultBetween, shift: defaultShift, kind: -1}
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
		return nil, fmt.Errorf("%q after drift, want probability, score, novelty, interval, inputs, inputs and one of %s, or class and one name", c.String(), strings.Join(novelty.InputNames[:], ", "))
	}
	return s, s.setPlan()
}

// parseOption parses between or shift.
func (s *driftCondition) parseOption(what, text string) error {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return fmt.Errorf("%s is %q, want a number", what, text)
	}
	if what == "between" {
		s.between = x
	} else {
		s.shift = x
	}
	return s.setPlan()
}

func (s *driftCondition) setPlan() (err error) {
	s.plan, err = drift.NewPlan(s.between, s.shift)
	s.plans = map[int]drift.Plan{}
	return err
}

// sharedPlan returns the plan for n series that together have the false alarms of one series.
func (s *driftCondition) sharedPlan(n int) drift.Plan {
	p, known := s.plans[n]
	if !known {
		p, _ = drift.NewPlan(min(s.between*float64(n), drift.MostBetween), s.shift) // setPlan refuses invalid values
		s.plans[n] = p
	}
	return p
}

// seriesCount returns the number of series for a prediction's stream.
func (s *driftCondition) seriesCount(p *codec.Prediction) int {
	switch {
	case s.signal != "inputs":
		return 1
	case s.kind < 0:
		return len(p.Inputs)
	}
	return len(p.Inputs) / novelty.InputsOf
}

// seriesAdded returns the number of series that a prediction adds to a key; c is nil for a new key.
// A stream's inputs may follow its first prediction, if this prediction is early.
func (s *driftCondition) seriesAdded(c *counter, p *codec.Prediction) int {
	switch n := max(1, s.seriesCount(p)); {
	case c == nil:
		return n
	case s.signal != "inputs" || len(p.Inputs) == 0:
		return 0
	default:
		return n - c.seriesCount()
	}
}

// seriesCount returns the number of series of a key of a drift rule.
func (c *counter) seriesCount() int { return max(1, len(c.Inputs)) }

// detectInputChange adds a prediction to its input series.
func (s *driftCondition) detectInputChange(c *counter, p *codec.Prediction) (on, off bool) {
	n := s.seriesCount(p)
	if n == 0 {
		return false, false
	}
	if len(c.Inputs) != n { // the first prediction, or another model
		c.Inputs = make([]drift.Detector, n)
	}
	plan, u, change := s.sharedPlan(n), predictionHash(p), ""
	for k := range c.Inputs {
		index := k
		if s.kind >= 0 {
			index = k*novelty.InputsOf + s.kind
		}
		v := c.Inputs[k].Update(plan, p.Inputs[index], mixBits(u+uint64(k)))
		if v == 0 {
			continue
		}
		if change != "" {
			change += ", "
		}
		change += fmt.Sprintf("channel %d %s %s", index/novelty.InputsOf, novelty.InputNames[index%novelty.InputsOf], v)
	}
	if change != "" {
		c.Change = change
	}
	return change != "", change == ""
}

// Judge implements Condition: without earlier predictions, no change is detected.
func (s *driftCondition) Judge(*codec.Prediction, string) (on, off bool) { return false, true }

// detectChange adds a prediction to the series of a counter.
func (s *driftCondition) detectChange(c *counter, p *codec.Prediction, class string) (on, off bool) {
	var x float32
	switch s.signal {
	case "inputs":
		return s.detectInputChange(c, p)
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
	v := c.Drift.Update(s.plan, x, predictionHash(p))
	if v != 0 {
		c.Change = v.String()
	}
	return v != 0, v == 0
}

// MostSeries is the maximum number of series of all drift rules together. Later keys get no drift
// alarm. A series takes up to 4 kB of the state, which is stored as a whole.
const MostSeries = 20_000

// ReportCrowded reports once that the drift rules have more than MostSeries series.
func (f *Fold) ReportCrowded() bool {
	first := f.crowded && !f.crowdedReported
	f.crowdedReported = f.crowdedReported || first
	return first
}

func (f *Fold) countSeries() {
	f.series = 0
	for key := range f.counters {
		if r := f.rules.byName(key.rule); r != nil && r.Kind == kindDrift {
			f.series += f.counters[key].seriesCount()
		}
	}
}

// predictionHash returns a hash of a prediction's identity, which is independent of the predicted
// values.
func predictionHash(p *codec.Prediction) uint64 {
	h := fnv.New64a()
	h.Write([]byte(p.Stream))
	x := h.Sum64() ^ p.Seq*0x9e3779b97f4a7c15 ^ uint64(p.Row)<<32
	return mixBits(x)
}

// mixBits is the last step of SplitMix64 (Steele, Lea and Flood 2014): each bit of x changes half
// of the result's bits.
func mixBits(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// errSeries rejects clauses that count predictions.
var errSeries = errors.New("drift does not count predictions: it allows only the clauses between, shift, clear after, hold, quiet, streams, by and final")
