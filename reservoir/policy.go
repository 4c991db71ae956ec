package reservoir

import (
	"errors"
	"fmt"
	"time"
)

// PolicyKind selects the begin and the end of a stream's sequences. A Euler
// state never forgets, so a model declares the policy and the stage follows it.
type PolicyKind string

// Sequence policies.
const (
	Marked  PolicyKind = "marked"  // an end mark in the data closes the sequence
	Window  PolicyKind = "window"  // hopping window: every Hop samples, a prediction over the last Length
	Gap     PolicyKind = "gap"     // session window: silence longer than Gap closes the window
	Count   PolicyKind = "count"   // tumbling window: every Length samples
	Endless PolicyKind = "endless" // never; predictions only every Early samples
)

// Policy is how a stream is cut into sequences. The state is reset to zero
// after an end.
type Policy struct {
	Kind   PolicyKind    `json:"kind"`
	Length int           `json:"length,omitzero"` // samples; window, count
	Hop    int           `json:"hop,omitzero"`    // samples; window: Length/Hop states per stream
	Gap    time.Duration `json:"gap,omitzero"`    // by the samples' own timestamps
	Early  int           `json:"early,omitzero"`  // also predict every Early samples, marked early; 0 = never
}

// Whole reports whether a prediction, early or not, uses its whole sequence, as in
// training: predictions at ends or, for sequences without end, all predictions.
func (p Policy) Whole(early bool) bool { return early == (p.Kind == Endless) }

// MaxPhases bounds Length/Hop: the states of one windowed stream.
const MaxPhases = 256

// Validate reports all errors in the policy.
func (p Policy) Validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("reservoir: policy %s: "+format, append([]any{p.Kind}, args...)...))
	}
	switch p.Kind {
	case Marked:
	case Window:
		switch {
		case p.Length < 1 || p.Hop < 1:
			bad("length %d, hop %d, want both at least 1", p.Length, p.Hop)
		case p.Length%p.Hop != 0:
			bad("length %d is not a multiple of hop %d", p.Length, p.Hop)
		case p.Length/p.Hop > MaxPhases:
			bad("length/hop = %d states per stream, want at most %d", p.Length/p.Hop, MaxPhases)
		}
	case Count:
		if p.Length < 1 {
			bad("length %d, want at least 1", p.Length)
		}
	case Gap:
		if p.Gap <= 0 {
			bad("gap %v, want a positive duration", p.Gap)
		}
	case Endless:
		if p.Early < 1 {
			bad("early = %d, want at least 1: an endless sequence has no other prediction", p.Early)
		}
	default:
		errs = append(errs, fmt.Errorf("reservoir: policy %q, want marked, window, gap, count or endless", p.Kind))
	}
	if p.Early < 0 {
		bad("early = %d, want 0 or more", p.Early)
	}
	return errors.Join(errs...)
}

// States returns the number of states, and slots, of one stream.
func (p Policy) States() int {
	if p.Kind == Window {
		return p.Length / p.Hop
	}
	return 1
}
