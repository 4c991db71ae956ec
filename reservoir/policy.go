package reservoir

import (
	"errors"
	"fmt"
	"time"
)

// PolicyKind says where a stream's sequences begin and end. A Euler state
// never forgets, so a model states it and the stage keeps to it.
type PolicyKind string

// Sequence policies.
const (
	Marked  PolicyKind = "marked"  // an end mark in the data closes the sequence
	Window  PolicyKind = "window"  // hopping window: every Hop samples, a prediction over the last Length
	Gap     PolicyKind = "gap"     // session window: silence longer than Gap closes it
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

// Whole reports whether a prediction, early or not, is of all that its sequence will
// have, as readouts are learnt: those at ends, or, where there are no ends, all.
func (p Policy) Whole(early bool) bool { return early == (p.Kind == Endless) }

// MaxPhases bounds Length/Hop: the states one windowed stream needs.
const MaxPhases = 256

// Validate reports everything that is wrong with the policy.
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

// States is how many states, and slots, one stream needs.
func (p Policy) States() int {
	if p.Kind == Window {
		return p.Length / p.Hop
	}
	return 1
}
