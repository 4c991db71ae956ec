package alarm

import (
	"fmt"
	"slices"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/readout"
)

// Capabilities lists the data that the predictions of a model have.
type Capabilities struct {
	Classes     []string
	Probability bool
	Number      bool
	Novelty     bool
	Inputs      bool
	LeastP      float32 // smallest p-value of the detector; 0 = unknown
}

// CapabilitiesOf returns the capabilities visible in a message's predictions.
func CapabilitiesOf(classes []string, all []codec.Prediction) Capabilities {
	g := Capabilities{Classes: classes}
	for i := range all {
		p := &all[i]
		g.Probability = g.Probability || p.Probability != 0
		g.Number = g.Number || p.Number.Known
		g.Novelty = g.Novelty || p.NoveltyP != 0
		g.Inputs = g.Inputs || p.Inputs != nil
	}
	return g
}

// capabilitiesOfReadout returns the capabilities of predictions of a readout.
func capabilitiesOfReadout(l *readout.Linear) Capabilities {
	g := Capabilities{Classes: l.Classes, Probability: l.Temperature != 0, Number: l.Interval != nil}
	if d := l.Novelty; d != nil {
		g.Novelty, g.Inputs, g.LeastP = true, d.Inputs != nil, float32(d.Least())
	}
	return g
}

// Unreachable is a rule whose alarm a model's predictions can never raise, in total or for one of
// the named classes.
type Unreachable struct {
	Rule    string
	Class   string   // a class that the model lacks; else empty
	Classes []string // of the model
	Why     string
}

// String returns the rule and the reason, with the classes of the model if it lacks a class.
func (u Unreachable) String() string {
	if u.Class == "" {
		return fmt.Sprintf("rule %q: %s", u.Rule, u.Why)
	}
	return fmt.Sprintf("rule %q: %s: %q is not one of %q", u.Rule, u.Why, u.Class, u.Classes)
}

// reportUnreachable reports the classes and the probability that a model lacks.
func (c *classCondition) reportUnreachable(g Capabilities, report func(class, why string)) {
	for _, name := range c.names {
		if !slices.Contains(g.Classes, name) {
			report(name, "a rule names a class that the job's model lacks: no prediction has this class")
		}
	}
	if c.atLeast > 0 && !g.Probability {
		report("", "a rule requires a probability, but the job's model has none: the alarm is never raised; write the rule without >=, or retrain the model")
	}
}

// reportUnreachable reports numbers and inputs that a model lacks.
func (l *levelCondition) reportUnreachable(g Capabilities, report func(class, why string)) {
	switch {
	case l.source == kindInput && !g.Inputs:
		report("", "a rule judges an input, but the job's model does not describe its inputs: the condition is never met; train the model with --drift")
	case l.source != kindInput && !g.Number:
		report("", "a rule requires a predicted number, but the job's model predicts classes: the alarm is never raised; write a rule of kind class, or train the model with --target")
	}
}

// inputOf returns a condition of kind input; nil for other conditions.
func inputOf(c Condition) Condition {
	if l, ok := c.(*levelCondition); ok && l.source == kindInput {
		return c
	}
	return nil
}

// UnreachableBy returns the unreachable rules with a readout of a model; an empty name is the first
// readout.
func (r Rules) UnreachableBy(readouts []*readout.Linear, name string) ([]Unreachable, error) {
	for _, l := range readouts {
		if name == "" || l.Name == name {
			return r.Unreachable(capabilitiesOfReadout(l)), nil
		}
	}
	return nil, fmt.Errorf("the model has no readout %q", name)
}

// Unreachable returns the unreachable rules, in rule order.
func (r Rules) Unreachable(g Capabilities) (all []Unreachable) {
	for _, rule := range r {
		report := func(class, why string) { all = append(all, Unreachable{rule.Name, class, g.Classes, why}) }
		for _, cond := range []Condition{rule.Condition, rule.Only, inputOf(rule.Unless)} {
			switch c := cond.(type) {
			case *classCondition:
				c.reportUnreachable(g, report)
			case *levelCondition:
				c.reportUnreachable(g, report)
			case *noveltyCondition:
				if !g.Novelty {
					report("", withoutDetector)
				} else if c.atMost < g.LeastP {
					report("", fmt.Sprintf("a rule requires a p-value of at most %g, but the smallest p-value of the model's detector is %.3g: the alarm is never raised; write novel %.3g or more, or train the model with more sequences", c.atMost, g.LeastP, roundUp(g.LeastP)))
				}
			case *driftCondition:
				if c.signal == "novelty" && !g.Novelty {
					report("", withoutDetector)
				}
				if c.signal == "inputs" && !g.Inputs {
					report("", "a rule requires drift of inputs, but the job's model does not describe its inputs: the alarm is never raised; train the model with --drift")
				}
			}
		}
	}
	return all
}

const withoutDetector = "a rule requires novelty, but the job's model has no novelty detector: the alarm is never raised; train the model with --novelty or --healthy-only"

// roundUp returns a p-value that is not smaller after rounding to three digits.
func roundUp(p float32) float64 { return 1.005 * float64(p) }
