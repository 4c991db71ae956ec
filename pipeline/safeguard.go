package pipeline

import (
	"github.com/eusn-stream/eusn-stream/internal/pipeline/owner"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// safeguard disables checks of exactly-once. Its zero value keeps every check. Each
// field replaces a check, so that the fault harness can show the check's purpose; only
// a build with the tag chaos sets fields (safeguard_chaos.go).
type safeguard struct {
	owner.Safeguards
	// identity, in the place of the model's.
	identity func(wire.Identity) wire.Identity
	// turn replaces state.TurnOf, the comparison of a producer's number.
	turn func(src *state.Source, n uint64) state.Turn
}
