//go:build chaos

package pipeline

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/owner"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// unguarded are safeguards, each with a disabled check.
var unguarded = map[string]safeguard{
	"": {},
	// commits regardless of other workers' commits
	"nofence": {Safeguards: owner.Safeguards{Condition: func(*nats.Msg, wire.Record) {}}},
	// relies on the server's duplicate window instead of the fence
	"msgid": {Safeguards: owner.Safeguards{Condition: func(m *nats.Msg, r wire.Record) {
		m.Header[jetstream.MsgIDHeader] = []string{fmt.Sprintf("%s.%s.%d.%d", m.Subject, r.Kind, r.InSeq, r.Ahead)}
	}}},
	// repeats and gaps of producers count as samples
	"nodedup": {turn: func(*state.Source, uint64) state.Turn { return state.InTurn }},
	// Eusn-Ahead is not looked at
	"noahead": {Safeguards: owner.Safeguards{Claimed: func(p *state.Partition, input error) error { p.Skip = 0; return input }}},
	// a claim does not check that the input is unchanged
	"noinput": {Safeguards: owner.Safeguards{Trusting: true, Claimed: func(p *state.Partition, _ error) error { p.Want.At = 0; return nil }}},
	// a state rebuilt is not compared with the record's digest
	"nodigest": {Safeguards: owner.Safeguards{Claimed: func(p *state.Partition, input error) error { p.Want.At = 0; return input }}},
	// active readouts are not taken from the snapshot
	"noreadouts": {Safeguards: owner.Safeguards{Restored: (*state.Partition).ForgetPromotions}},
	// a change of the input under the worker is not detected
	"noreset": {Safeguards: owner.Safeguards{Trusting: true}},
	// every model passes for the job's
	"anymodel": {identity: func(wire.Identity) wire.Identity {
		zeros := strings.Repeat("0", wire.HashDigits)
		return wire.Identity{Network: zeros, Readout: zeros}
	}},
}

// Unsafe disables a check of the stage. Unsafe exists only with the build tag chaos,
// for a harness that observes the effect.
func (s *Worker) Unsafe(mode string) error {
	g, known := unguarded[mode]
	if !known {
		return fmt.Errorf("pipeline: unsafe mode %q, want one of %q", mode, slices.Sorted(maps.Keys(unguarded)))
	}
	s.guard = g
	return nil
}

// KeepReplaced sets how long replaced snapshots and rows are kept; 0 = not at all.
// KeepReplaced exists only with the build tag chaos.
func (s *Worker) KeepReplaced(keep time.Duration) {
	if s.keep = keep; keep == 0 {
		s.keep = -1
	}
}
