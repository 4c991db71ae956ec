package readout

import (
	"fmt"
	"slices"
)

// Detect is the p-value of a novelty that Novelty has given a sequence. Where the
// readout detects, it also puts the score that Class reads into scores[0], in the place of
// what the weights made.
func (l *Linear) Detect(scores []float32, novelty float32) (p float32) {
	if l.Detects {
		scores[0] = l.Detected(novelty)
	}
	return l.Novelty.P(novelty)
}

// Answer writes the scores by which the readout answers for one feature vector: those of
// Scores, or what its detector says where it detects.
func (l *Linear) Answer(dst, features []float32) {
	l.Scores(dst, features)
	if l.Detects {
		l.Detect(dst, l.Novelty.Score(slices.Clone(features)))
	}
}

// Detected is the score of a readout that detects, from the detector's: that less the
// limit above which it is novel, so that Class says which. Without a limit it is -1.
func (l *Linear) Detected(novelty float32) float32 {
	limit, ok := l.Novelty.Limit()
	switch {
	case !ok:
		return -1
	case novelty != novelty: // no number: as unlike as can be
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
