package alarm

import (
	"fmt"
	"slices"

	"github.com/eusn-stream/eusn-stream/codec"
)

// Gives is what the predictions of a model have.
type Gives struct {
	Classes     []string
	Probability bool
	Number      bool
	Novelty     bool
	Inputs      bool
	LeastP      float32 // the smallest p-value of its detector; 0 = not known
}

// GivesIn is what the predictions of a message have.
func GivesIn(classes []string, all []codec.Prediction) Gives {
	g := Gives{Classes: classes}
	for i := range all {
		p := &all[i]
		g.Probability = g.Probability || p.Probability != 0
		g.Number = g.Number || p.Number.Known
		g.Novelty = g.Novelty || p.NoveltyP != 0
		g.Inputs = g.Inputs || p.Inputs != nil
	}
	return g
}

// Never is a rule whose alarm no prediction of a model raises, or raises for one of the
// classes that it names.
type Never struct {
	Rule  string
	Class string // that the model does not have; else empty
	Why   string
}

// reportNever reports the classes that a model does not have, and a probability that it does
// not give.
func (c *classes) reportNever(g Gives, say func(class, why string)) {
	for _, name := range c.names {
		if !slices.Contains(g.Classes, name) {
			say(name, "a rule names a class that the job's model does not have: no prediction is of it")
		}
	}
	if c.atLeast > 0 && !g.Probability {
		say("", "a rule wants a probability, and the job's model gives none: its alarm is never raised; write the rule without >=, or train the model again")
	}
}

// Never are those of the rules, in their order.
func (r Rules) Never(g Gives) (all []Never) {
	for _, rule := range r {
		say := func(class, why string) { all = append(all, Never{rule.Name, class, why}) }
		for _, cond := range []Condition{rule.Condition, rule.Only} {
			switch c := cond.(type) {
			case *classes:
				c.reportNever(g, say)
			case *level:
				if !g.Number {
					say("", "a rule is about a predicted number, and the job's model predicts classes: its alarm is never raised; write a rule of kind class, or train the model with --target")
				}
			case *novel:
				if !g.Novelty {
					say("", withoutDetector)
				} else if c.atMost < g.LeastP {
					say("", fmt.Sprintf("a rule wants a p-value of at most %g, and the smallest of the model's detector is %.3g: its alarm is never raised; write novel %.3g or more, or train the model with more sequences", c.atMost, g.LeastP, roundUp(g.LeastP)))
				}
			case *series:
				if c.signal == "novelty" && !g.Novelty {
					say("", withoutDetector)
				}
				if c.signal == "inputs" && !g.Inputs {
					say("", "a rule is about drift of inputs, and the job's model does not say what they are like: its alarm is never raised; train the model with --drift")
				}
			}
		}
	}
	return all
}

const withoutDetector = "a rule is about what is novel, and the job's model says nothing of that: its alarm is never raised; train the model with --novelty or --healthy-only"

// roundUp is a p-value that is written in three digits and not below.
func roundUp(p float32) float64 { return 1.005 * float64(p) }
