package store

import (
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// TestNeeded: the next owner reads after the stored state, so the following messages
// stay. An empty range in the record need not stay, if the stored state is the last
// state.
func TestNeeded(t *testing.T) {
	for _, c := range []struct {
		what string
		read wire.Position
		snap uint64 // the last message in the stored state
		end  uint64 // the partition has no input after its last message up to this message
		want uint64
	}{
		{"nothing read", wire.Position{}, 0, 0, 1},
		{"no state stored", wire.Position{InSeq: 9}, 0, 0, 1},
		{"a state before the last message", wire.Position{InSeq: 9}, 4, 0, 5},
		{"the same, and no input after it", wire.Position{InSeq: 9}, 4, 20, 5},
		{"the last state", wire.Position{InSeq: 9}, 9, 0, 10},
		{"the last state, and no input after it", wire.Position{InSeq: 9}, 9, 20, 21},
		{"the last state, and a commit of several parts", wire.Position{InSeq: 9, Ahead: 3}, 9, 20, 10},
	} {
		if got := neededFrom(&wire.Record{Position: c.read, SnapSeq: c.snap, EmptyTo: c.end}); got != c.want {
			t.Errorf("%s: message %d is needed, want %d", c.what, got, c.want)
		}
	}
}
