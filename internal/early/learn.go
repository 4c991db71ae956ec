package early

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/readout"
)

// Sequence is the leave-one-out result of a training sequence.
type Sequence struct {
	Label    int      // the true class
	Prefixes []Prefix // ascending; the last is the whole sequence
}

// Prefix is a prefix of a sequence.
type Prefix struct {
	Samples int64
	Class   int     // the predicted class
	Margin  float64 // see readout.EarlyRule
}

// Report describes the rule's result on its training sequences.
type Report struct {
	Loss      float64 `json:"loss,omitzero"`     // allowed loss of accuracy
	Sequences int     `json:"sequences"`         // with prefixes
	Prefixes  int     `json:"prefixes,omitzero"` // of the sequences
	Whole     float64 `json:"whole,omitzero"`    // accuracy of the whole sequences
	Accuracy  float64 `json:"accuracy"`          // of the first decided prefix, or of the whole sequence
	Earliness float64 `json:"earliness"`         // mean share of a sequence's samples at which it is decided
	Decided   float64 `json:"decided"`           // share of the sequences decided before their end
}

// Least is the minimum number of sequences for a rule.
const Least = 10

// Learn fits a rule to at least Least sequences with prefixes. loss is above 0 and below 1.
func Learn(all []Sequence, loss float64) (*readout.EarlyRule, Report, error) {
	if !(loss > 0 && loss < 1) {
		return nil, Report{}, fmt.Errorf("early: loss %v of accuracy, want a share above 0 and below 1", loss)
	}
	var some []Sequence
	var lengths []int64
	prefixes := 0
	for _, s := range all {
		if len(s.Prefixes) > 1 {
			some, prefixes = append(some, s), prefixes+len(s.Prefixes)-1
			lengths = append(lengths, s.Prefixes[len(s.Prefixes)-1].Samples)
		}
	}
	if len(some) < Least {
		return nil, Report{}, fmt.Errorf("early: %d of %d sequences have a prefix, want at least %d to learn when one suffices: predict more often (--early)", len(some), len(all), Least)
	}
	slices.Sort(lengths)
	r := &readout.EarlyRule{Length: lengths[len(lengths)/2]}
	var err error
	if r.Coefficients, err = regress(some, r); err != nil {
		return nil, Report{}, err
	}
	report, _ := apply(r, some)
	report.Loss, report.Sequences, report.Prefixes = loss, len(some), prefixes
	report.Whole = report.Accuracy // at a threshold of 0
	for k := range thresholds {
		next := *r
		next.Most = float32(math.Ldexp(1+float64(k%8)/8, k/8-octaves))
		result, change := apply(&next, some)
		if result.Accuracy < report.Whole-loss-1e-9 || change > loss { // 1e-9 is for rounding
			break
		}
		r.Most, report.Accuracy, report.Earliness, report.Decided = next.Most, result.Accuracy, result.Earliness, result.Decided
	}
	return r, report, r.Validate()
}

// The tried thresholds: eight for each octave from 1/4096 to 1.
const (
	octaves    = 12
	thresholds = 8 * octaves
)

// apply decides the sequences. change is the mean probability of a change at the
// decisions, 0 at an end.
func apply(r *readout.EarlyRule, all []Sequence) (res Report, change float64) {
	for _, s := range all {
		whole := s.Prefixes[len(s.Prefixes)-1]
		at := whole
		for _, p := range s.Prefixes[:len(s.Prefixes)-1] {
			if c := r.Change(p.Samples, p.Margin); r.Decided(c) {
				at, change = p, change+float64(c)
				res.Decided++
				break
			}
		}
		if at.Class == s.Label {
			res.Accuracy++
		}
		res.Earliness += float64(at.Samples) / float64(whole.Samples)
	}
	n := float64(len(all))
	return Report{Accuracy: res.Accuracy / n, Earliness: res.Earliness / n, Decided: res.Decided / n}, change / n
}

// examples are the training prefixes of the logistic regression.
type examples struct {
	rows   [][4]float64 // terms of each prefix
	stays  []bool       // the prefix has the class of the whole sequence
	scale  [4]float64   // root mean squares of the terms
	yes, n float64      // prefixes that stay, and all
}

func newExamples(all []Sequence, r *readout.EarlyRule) *examples {
	e := new(examples)
	for _, s := range all {
		whole := s.Prefixes[len(s.Prefixes)-1]
		for _, p := range s.Prefixes[:len(s.Prefixes)-1] {
			x := r.Terms(p.Samples, p.Margin)
			e.rows, e.stays = append(e.rows, x), append(e.stays, p.Class == whole.Class)
			for k := range x {
				e.scale[k] += float64(x[k] * x[k])
			}
		}
	}
	for k := range e.scale {
		if e.scale[k] = math.Sqrt(e.scale[k] / float64(len(e.rows))); !(e.scale[k] > 0) {
			e.scale[k] = 1
		}
	}
	for _, s := range e.stays {
		if s {
			e.yes++
		}
	}
	e.n = float64(len(e.rows))
	return e
}

// newtonSystem returns the Hessian and the gradient for a step of Newton's method from
// coefficients c.
func (e *examples) newtonSystem(c [4]float64) (h [4][5]float64) {
	// The labels are Platt's: a few stable classes do not prove that none changes.
	yes, no := (e.yes+1)/(e.yes+2), 1/(e.n-e.yes+2)
	var g [4]float64
	for k := 1; k < 4; k++ {
		g[k], h[k][k] = -c[k], 1
	}
	for i, row := range e.rows {
		z, x := 0.0, row
		for k := range x {
			x[k] /= e.scale[k]
			z += float64(c[k] * x[k])
		}
		p, y := 1/(1+math.Exp(-z)), no
		if e.stays[i] {
			y = yes
		}
		for j := range x {
			g[j] += float64((y - p) * x[j])
			for k := range x {
				h[j][k] += float64(float64(p*(1-p)*x[j]) * x[k])
			}
		}
	}
	h[0][0] += 1e-6
	for k := range g {
		h[k][4] = g[k]
	}
	return h
}

// regress is a logistic regression of whether the class stays, with a penalty of half the sum
// of the squared coefficients except the first, on terms divided by their root mean squares:
// Newton's method, which converges from 0 in some ten steps.
func regress(all []Sequence, r *readout.EarlyRule) (c [4]float64, err error) {
	e := newExamples(all, r)
	for range 50 {
		step := eliminate(e.newtonSystem(c))
		most := 0.0
		for k := range c {
			most = max(most, math.Abs(step[k]))
		}
		if most != most {
			return c, errors.New("early: the scores of the prefixes are no numbers: take a larger alpha")
		}
		damp := min(1, 4/max(most, 1e-300)) // far from the solution a whole step may overshoot
		for k := range c {
			c[k] += float64(damp * step[k])
		}
		if most < 1e-9 {
			break
		}
	}
	for k := range c {
		c[k] /= e.scale[k]
	}
	return c, nil
}

// eliminate solves four equations with a positive definite matrix.
func eliminate(h [4][5]float64) (x [4]float64) {
	for k := range 4 {
		for i := k + 1; i < 4; i++ {
			f := h[i][k] / h[k][k]
			for j := k; j < 5; j++ {
				h[i][j] -= float64(f * h[k][j])
			}
		}
	}
	for k := 3; k >= 0; k-- {
		x[k] = h[k][4]
		for j := k + 1; j < 4; j++ {
			x[k] -= float64(h[k][j] * x[j])
		}
		x[k] /= h[k][k]
	}
	return x
}
