package adaptive

import "fmt"

// Edges are the ends of a regression's intervals, moved by each label: see the package's
// description.
type Edges struct {
	aim, step            float64 // aim is the share of one side; step is rate times half of the model's width
	low, high            float64
	labels, below, above int
}

// NewEdges starts at the model's low and high, the addends of each value; a share level of the
// numbers should be within. level and rate are above 0 and below 1, low is below high.
func NewEdges(level, rate, low, high float64) (*Edges, error) {
	if _, err := New(level, rate); err != nil {
		return nil, err
	}
	if !(low < high) {
		return nil, fmt.Errorf("adaptive: an interval from %v to %v, want one that has a width: it is the unit in which it moves", low, high)
	}
	return &Edges{aim: (1 - level) / 2, step: rate * (high - low) / 2, low: low, high: high}, nil
}

// Label takes the next number: whether it was below its interval, or above. Both are possible
// if the edges have passed each other.
func (e *Edges) Label(below, above bool) {
	e.labels++
	if below {
		e.below++
	}
	if above {
		e.above++
	}
}

// At returns the addends of the next value: low may be above high, an empty interval.
func (e *Edges) At() (low, high float64) {
	want := float64(e.aim * float64(e.labels))
	return e.low - float64(e.step*(float64(e.below)-want)), e.high + float64(e.step*(float64(e.above)-want))
}

// Numbers reports the benefit of adapting intervals. Lengths are in the unit of the number.
type Numbers struct {
	Level    float64 `json:"level"`
	Rate     float64 `json:"rate"`
	Late     int     `json:"label_delay"` // numbers not yet known when an interval was made
	Samples  int     `json:"samples"`
	Coverage float64 `json:"coverage"` // share of the numbers in their interval
	Below    float64 `json:"below"`    // share below
	Above    float64 `json:"above"`    // share above
	Width    float64 `json:"mean_width"`
	Bound    float64 `json:"bound"`            // maximum distance of Below and Above from (1 - Level) / 2, for any order of these numbers
	Fixed    float64 `json:"coverage_without"` // of the model's own intervals
	FixWidth float64 `json:"width_without"`
	Low      float64 `json:"low"` // with High: added to the next value
	High     float64 `json:"high"`
}

// RunNumbers is Run for intervals of numbers; the model's interval is value + low to
// value + high. at returns the number of prediction i less its value.
func RunNumbers(level, rate, low, high float64, late, n int, at func(i int) float64) (*Numbers, error) {
	e, err := NewEdges(level, rate, low, high)
	if err == nil {
		err = checkRun(late, n)
	}
	if err != nil {
		return nil, err
	}
	r := &Numbers{Level: level, Rate: rate, Late: late, Samples: n, FixWidth: high - low}
	type miss struct{ below, above bool }
	missed := make([]miss, n)
	least, most, held, fixed := at(0), at(0), 0, 0
	for i := range n {
		if i > late {
			e.Label(missed[i-late-1].below, missed[i-late-1].above)
		}
		l, h := e.At()
		x := at(i)
		m := miss{x < l, x > h}
		if missed[i] = m; !m.below && !m.above {
			held++
		}
		if low <= x && x <= high {
			fixed++
		}
		r.Width += max(0, h-l) / float64(n)
		least, most = min(least, x), max(most, x)
	}
	for _, m := range missed[max(0, n-late-1):] {
		e.Label(m.below, m.above)
	}
	of := func(count int) float64 { return float64(count) / float64(n) }
	r.Coverage, r.Below, r.Above, r.Fixed = of(held), of(e.below), of(e.above), of(fixed)
	r.Low, r.High = e.At()
	// Maximum distance of an edge from its start: to the farthest number, and a little
	// further, because late+1 labels may push the edge on.
	out, in := float64(late+1)*(1-e.aim)*e.step, float64(late+1)*e.aim*e.step
	far := max(most-high+out, high-least+in, low-least+out, most-low+in)
	r.Bound = far / (e.step * float64(n))
	return r, nil
}

// String returns a one-line summary.
func (r *Numbers) String() string {
	return fmt.Sprintf("intervals hold %.2f %% of %d numbers at rate %g, %.2f %% are below and %.2f %% above; %.4g wide in the mean; in any order of these numbers each side is within %.2f %% of %.4g %%; without adapting they hold %.2f %%, %.4g wide; now value %+.4g to %+.4g",
		100*r.Coverage, r.Samples, r.Rate, 100*r.Below, 100*r.Above, r.Width, 100*r.Bound, 50*(1-r.Level), 100*r.Fixed, r.FixWidth, r.Low, r.High)
}
