package readout

import (
	"errors"
	"fmt"
)

// ErrDetects says that a readout answers by its detector alone, which engines do not
// compute.
var ErrDetects = errors.New("the model was trained on healthy data alone (--healthy-only): only offline evaluate computes how unlike them a sequence is, no stage yet")

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
