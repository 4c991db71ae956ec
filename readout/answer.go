package readout

import (
	"fmt"
	"slices"

	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// Seen describes a sequence besides its scores.
type Seen struct {
	Samples int64     // samples of the sequence so far, after the front end
	Judged  bool      // the readout's detector has judged the sequence: Novelty is its score
	Novelty float32   // novelty.Detector.Score
	Inputs  []float32 // statistics of the inputs, kept by the answer; nil: the detector reads none

	Statistics []float32 // of the samples, for random features, weights of segments and detectors (reservoir.Front.Statistics); not kept
}

// Answer sets all fields of a that follow from the scores of one sequence; a keeps scores. The
// flag outcome.FlagEarly of a means that the sequence continues; scores then come from the
// readout returned by For. If the readout detects and the sequence is judged, the detector's
// score replaces scores[0]; random features add to scores[0], weights of segments to all
// scores. Answer keeps the sample flags of a.
//
// The classes of a.Set are appended to sets, and the longer slice is returned: sets is the
// memory of many answers, nil for a single answer.
func (l *Linear) Answer(a *outcome.Answer, scores []float32, seen Seen, sets []int32) []int32 {
	early := a.Early()
	of := l.For(early)
	a.Scores = scores
	a.Novelty, a.NoveltyP, a.Inputs = 0, 0, nil
	if seen.Judged {
		a.Novelty, a.Inputs = l.Novelty.AddMeans(seen.Novelty, seen.Statistics), seen.Inputs
		a.NoveltyP = l.Detect(scores, a.Novelty)
	}
	if l.Random != nil {
		scores[0] = l.Random.addTo(scores[0], seen.Statistics)
	}
	l.Segments.addTo(scores[:l.Columns()], seen.Statistics)
	class := of.Class(scores)
	a.Class, a.Score, a.Probability = int32(class), of.Score(scores, class), of.Probability(scores)
	a.Number = outcome.Number{}
	if l.Interval != nil {
		a.Number.Known = true
		a.Number.Value, a.Number.Low, a.Number.High = l.Number(scores)
	}
	a.Change, a.Flags = 0, a.Flags&^(outcome.FlagDecided|outcome.FlagAbstain)
	if of.Abstains(a.Probability) {
		a.Flags |= outcome.FlagAbstain
	}
	if early {
		var decided bool
		if a.Change, decided = l.Change(seen.Samples, scores); decided {
			a.Flags |= outcome.FlagDecided
		}
	}
	a.Set = nil
	if of.Coverage == nil {
		return sets
	}
	if sets == nil {
		sets = make([]int32, 0, len(l.Classes)) // an empty set is not nil
	}
	from := len(sets)
	sets = of.AppendSet(sets, scores) // if the slice grows, earlier sets keep the old array
	a.Set = sets[from:len(sets):len(sets)]
	return sets
}

// Score returns the score of a class. With two classes there is one column, the score of class
// 1; class 0 has the opposite score. The score of a regression is its value.
func (l *Linear) Score(scores []float32, class int) float32 {
	switch {
	case len(scores) > 1:
		return scores[class]
	case l.Interval != nil:
		return l.Interval.limit(scores[0])
	case class == 0:
		return -scores[0]
	}
	return scores[0]
}

// Gives reports whether the readout has the given part.
func (l *Linear) Gives(part outcome.Part) bool {
	switch part {
	case outcome.Coverage:
		return l.Coverage != nil
	case outcome.Detector:
		return l.Novelty != nil
	case outcome.Inputs:
		return l.Novelty.InputValues() > 0
	case outcome.Prefixes:
		return l.Prefixes != nil
	case outcome.Regressor:
		return l.Interval != nil
	}
	return true
}

// Detect returns the p-value of a novelty computed by Novelty, with its means. If the readout detects, Detect
// also replaces scores[0], the score of the weights, by the score that Class reads.
func (l *Linear) Detect(scores []float32, novelty float32) (p float32) {
	if l.Detects {
		scores[0] = l.Detected(novelty)
	}
	return l.Novelty.P(novelty)
}

// AnswerScores writes the scores that decide the answer for one feature vector: the linear
// scores, with random features or weights of the statistics (Seen.Statistics), or, if the readout detects,
// the score of its detector with these statistics.
func (l *Linear) AnswerScores(dst, features, statistics []float32) {
	l.Scores(dst, features)
	if l.Random != nil {
		dst[0] = l.Random.addTo(dst[0], statistics)
	}
	l.Segments.addTo(dst[:l.Columns()], statistics)
	if l.Detects {
		l.Detect(dst, l.Novelty.AddMeans(l.Novelty.Score(slices.Clone(features)), statistics))
	}
}

// Detected returns the score of a readout that detects: the novelty minus the detector's
// limit, so a positive score is the class for novel sequences. Without a limit it is -1.
func (l *Linear) Detected(novelty float32) float32 {
	limit, ok := l.Novelty.Limit()
	switch {
	case !ok:
		return -1
	case novelty != novelty: // not a number: the largest distance
		return 1
	}
	return novelty - limit
}

func (l *Linear) checkNovelty() error {
	switch d := l.Novelty; {
	case d == nil && l.Detects:
		return fmt.Errorf("readout: %q: it detects, want a detector", l.Name)
	case d == nil:
		return nil
	case l.Detects && len(l.Classes) != 2:
		return fmt.Errorf("readout: %q: it detects, want 2 classes, got %d", l.Name, len(l.Classes))
	case d.Features() != l.Features():
		return fmt.Errorf("readout: %q: its detector reads %d features, want %d", l.Name, d.Features(), l.Features())
	default:
		return d.Validate()
	}
}
