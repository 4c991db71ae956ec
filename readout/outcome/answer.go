package outcome

import (
	"math"
	"slices"
)

// Answer is a readout's result for a sequence.
type Answer struct {
	Class int32   // index of the predicted class among the readout's
	Score float32 // of the class
	// Probability is the class's among the readout's classes, in (0, 1]; 0: the readout has no
	// temperature for probabilities.
	Probability float32
	Scores      []float32 // one per class; for two classes a single score, positive for class 1
	// Set is the set of classes that includes the true class, at the readout's coverage:
	// indexes, ascending. One class is an answer; an empty set means: no class resembles the
	// sequence. nil: the readout makes no sets.
	Set []int32
	// Novelty is the distance of the sequence from the training part: 1 is usual, there is no
	// upper bound. NoveltyP is its p-value, in (0, 1]: the share of sequences like the
	// training's at the same distance, or more; 0: the readout has no detector, or the
	// sequence has not ended.
	Novelty, NoveltyP float32
	// Inputs are statistics of the sequence's samples: level, spread and pace of each channel
	// (novelty.InputNames), in deviations of the training's sequences. 0 is usual. nil: the
	// readout has no inputs.
	Inputs []float32
	// Change is the probability that the class changes until the end of the sequence, for an
	// early prediction (FlagEarly). 0: the readout has no rule. FlagDecided: Change is at most
	// the rule's limit.
	Change float32
	// Number is the prediction of a regression; Class is then 0, named after the number, and
	// Score the value.
	Number Number
	// Flags are the flags of the samples, and FlagDecided and FlagAbstain, which follow from
	// the scores.
	Flags Flag
}

// Number is a regression's predicted number with an interval, in the target's unit.
type Number struct {
	Value     float32
	Low, High float32 // bounds of a share of the true numbers, the readout's coverage
	Known     bool    // false: the readout predicts classes
}

// Early reports whether the sequence had not ended.
func (a *Answer) Early() bool { return a.Flags&FlagEarly != 0 }

// Equal reports whether two answers are equal, numbers bit for bit.
func (a *Answer) Equal(b *Answer) bool {
	if a.Class != b.Class || a.Flags != b.Flags || a.Number.Known != b.Number.Known {
		return false
	}
	for i := range Columns {
		c := &Columns[i]
		switch {
		case c.Float != nil && math.Float32bits(*c.Float(a)) != math.Float32bits(*c.Float(b)),
			c.Floats != nil && !sameBits(*c.Floats(a), *c.Floats(b)),
			c.Classes != nil && !slices.Equal(*c.Classes(a), *c.Classes(b)):
			return false
		}
	}
	return true
}

func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}
