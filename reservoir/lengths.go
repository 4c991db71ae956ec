package reservoir

import "fmt"

// lengthFactor limits the length of a sequence relative to the longest and the
// shortest training sequence. Features are sums and extremes over a sequence's
// samples: with half or twice as many samples they stay near the learned
// features, with a tenth or ten times they do not.
const lengthFactor = 2

// Unlike reports whether a sequence of that many samples is far shorter or
// longer than every training sequence: less than half of the shortest, or more
// than twice the longest. An early prediction is short on purpose, and
// therefore only ever too long. Only the length counts.
func (t Training) Unlike(samples int64, early bool) bool {
	return !early && samples*lengthFactor < int64(t.MinLength) ||
		t.MaxLength > 0 && samples > lengthFactor*int64(t.MaxLength)
}

// CheckLengths refuses a model whose policy makes sequences unknown to its
// readout: windows or counts of other lengths than in training, and endless
// sequences after training only on ends of series. A model without a description
// of its training passes.
func (m *Model) CheckLengths() error {
	p, t := m.Policy, m.Training
	if p.Kind == Endless && t.MaxLength > 0 && t.MinLength == 0 { // by a program that trained on whole series
		return fmt.Errorf("%w: its readout was trained on whole series of up to %d samples, its policy endless predicts every %d: its predictions would mean little; train again with --policy endless --early %d, which learns from early predictions too",
			ErrModel, t.MaxLength, p.Early, p.Early)
	}
	if p.Kind != Window && p.Kind != Count || t.MaxLength == 0 {
		return nil
	}
	if t.MaxLength == p.Length && (t.MinLength == 0 || t.MinLength == p.Length) {
		return nil
	}
	trained := fmt.Sprintf("%d to %d", t.MinLength, t.MaxLength)
	switch t.MinLength {
	case 0:
		trained = fmt.Sprintf("up to %d", t.MaxLength)
	case t.MaxLength:
		trained = fmt.Sprint(t.MaxLength)
	}
	again := fmt.Sprintf("--policy %s --length %d", p.Kind, p.Length)
	if p.Kind == Window {
		again += fmt.Sprintf(" --hop %d", p.Hop)
	}
	return fmt.Errorf("%w: its readout was trained on sequences of %s samples, its policy %s cuts sequences of %d: its predictions would mean nothing; train again with %s, which cuts the training series too",
		ErrModel, trained, p.Kind, p.Length, again)
}
