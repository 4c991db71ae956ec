package readout

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Prefixes is the part of a readout for unfinished sequences.
type Prefixes struct {
	Linear *Linear // scores prefixes; same features and classes, without sets and detector
	Rule   EarlyRule
}

// For returns the readout that scores a sequence: the prefix readout, if any and if the
// sequence has not ended.
func (l *Linear) For(early bool) *Linear {
	if early && l.Prefixes != nil {
		return l.Prefixes.Linear
	}
	return l
}

// Margin returns the difference of the two largest of one sample's scores, times the
// temperature: the logarithm of the ratio of their probabilities. 0 if the temperature is not
// known; no finite number if the two scores are not finite. The same bits on every platform.
func (l *Linear) Margin(scores []float32) float64 {
	if len(l.Classes) == 2 {
		return float64(l.Temperature * math.Abs(float64(scores[0])))
	}
	top, second := math.Inf(-1), math.Inf(-1)
	for _, s := range scores[:len(l.Classes)] {
		switch x := float64(s); {
		case x != x:
			return x
		case x > top:
			top, second = x, top
		case x > second:
			second = x
		}
	}
	return float64(l.Temperature * (top - second))
}

// Change returns the probability that a sequence's class at its end differs from the class of
// a prefix with the given samples and scores of For(true), and whether the prefix suffices;
// see EarlyRule. 0 and false if the readout has no rule.
func (l *Linear) Change(samples int64, scores []float32) (change float32, decided bool) {
	if l.Prefixes == nil {
		return 0, false
	}
	change = l.Prefixes.Rule.Change(samples, l.Prefixes.Linear.Margin(scores))
	return change, l.Prefixes.Rule.Decided(change)
}

func (l *Linear) checkPrefixes() error {
	p := l.Prefixes
	if p == nil {
		return nil
	}
	bad := func(err error) error { return fmt.Errorf("readout: %q: of prefixes: %w", l.Name, err) }
	switch q := p.Linear; {
	case q == nil:
		return bad(errors.New("want a readout"))
	case q.Prefixes != nil || q.Coverage != nil || q.Abstain != nil || q.Novelty != nil || l.Detects || q.Detects:
		return bad(errors.New("want classes and scores alone"))
	case q.Features() != l.Features() || !slices.Equal(q.Classes, l.Classes):
		return bad(fmt.Errorf("it reads %d features and has classes %q, want %d and %q", q.Features(), q.Classes, l.Features(), l.Classes))
	case q.Temperature == 0:
		return bad(errors.New("want a temperature: without one it has no probabilities"))
	default:
		if err := errors.Join(q.Validate(), p.Rule.Validate()); err != nil {
			return bad(err)
		}
		return nil
	}
}
