package alarm

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/pipeline/drift"
)

// series is the condition of kind drift: one number of each prediction, which package
// drift watches. A prediction is on when the series is found to have changed.
type series struct {
	signal         string // probability, score, novelty, class or interval
	class          string
	between, shift float64
	plan           drift.Plan
}

// What a rule of kind drift says where it says nothing else.
const (
	defaultBetween = 1e6
	defaultShift   = .5
)

func parseSeries(c clause) (*series, error) {
	s := &series{between: defaultBetween, shift: defaultShift}
	if len(c) > 0 && !c[0].quoted {
		s.signal = c[0].text
	}
	switch {
	case len(c) == 1 && (s.signal == "probability" || s.signal == "score" || s.signal == "novelty" || s.signal == "interval"):
	case len(c) == 2 && s.signal == "class" && c[1].text != "|":
		s.class = c[1].text
	default:
		return nil, fmt.Errorf("%q behind drift, want probability, score, novelty, interval, or class and one name", c.String())
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
	return err
}

// Judge is Condition's: without what came before, nothing has changed.
func (s *series) Judge(*codec.Prediction, string) (on, off bool) { return false, true }

// judge adds a prediction to the series of a counter.
func (s *series) judge(c *counter, p *codec.Prediction, class string) (on, off bool) {
	var x float32
	switch s.signal {
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

// MostSeries is how many keys rules of kind drift may have in all. Those that come later
// have no alarm of drift. Each takes 2 kB of the state, which is stored as a whole.
const MostSeries = 20_000

// Crowded reports once that there are more keys for rules of kind drift than MostSeries.
func (f *Fold) Crowded() bool {
	now := f.crowded && !f.told
	f.told = f.told || now
	return now
}

func (f *Fold) countSeries() {
	f.series = 0
	for which := range f.counters {
		if r := f.rules.named(which.rule); r != nil && r.Kind == kindDrift {
			f.series++
		}
	}
}

// place is a number that has nothing to do with what a prediction says: a hash of which
// it is.
func place(p *codec.Prediction) uint64 {
	h := fnv.New64a()
	h.Write([]byte(p.Stream))
	x := h.Sum64() ^ p.Seq*0x9e3779b97f4a7c15 ^ uint64(p.Row)<<32
	// The last step of SplitMix64 (Steele, Lea and Flood 2014): each bit of x moves half of
	// the result's.
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// errSeries is that of clauses that count predictions.
var errSeries = errors.New("drift counts no single predictions: of its clauses only between, shift, clear after, hold, quiet, streams, by and final are possible")
