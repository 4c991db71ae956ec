package reservoir

import "fmt"

// lengthFactor is how many times longer than the longest training sequence, or
// shorter than the shortest, a sequence is still like them. Features are sums
// and extremes over a sequence's samples: with half or twice as many they still
// are near what was learnt; a tenth or ten times are another matter.
const lengthFactor = 2

// Unlike reports whether a sequence of that many samples is far shorter or
// longer than any the model was trained on: less than half of the shortest, or
// more than twice the longest. One that is predicted early is short for that
// reason, and only ever too long. It depends on nothing but the length.
func (t Training) Unlike(samples int64, early bool) bool {
	return !early && samples*lengthFactor < int64(t.MinLength) ||
		t.MaxLength > 0 && samples > lengthFactor*int64(t.MaxLength)
}

// CheckLengths refuses a model whose policy makes sequences that its readout has
// never seen: windows or counts of other lengths than it was trained on, and
// endless ones of which it has seen the ends of series alone. A model that does
// not say what it was trained on passes.
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
