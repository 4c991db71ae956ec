package pipeline

import (
	"github.com/eusn-stream/eusn-stream/internal/pipeline/owner"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// safeguard is how a worker keeps to exactly-once. Its zero value makes every check.
// Each field takes the place of one, so that the fault harness can see what that
// check is for; only a build with the tag chaos has any (safeguard_chaos.go).
type safeguard struct {
	owner.Safeguards
	// identity, in the place of the model's.
	identity func(wire.Identity) wire.Identity
	// turn, in the place of state.TurnOf: where a producer's number stands.
	turn func(src *state.Source, n uint64) state.Turn
}
