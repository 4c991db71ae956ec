package admin

import (
	"fmt"
	"slices"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// ErrState reports bytes that are no snapshot, or a damaged snapshot.
var ErrState = state.ErrState

// PartitionState is the content of a snapshot, for inspection.
type PartitionState struct {
	Partition int           `json:"partition"`
	InSeq     uint64        `json:"in_seq"` // last input message in the snapshot
	Streams   []StreamState `json:"streams"`
}

// StreamState is the state of a stream, in order of key and id.
type StreamState struct {
	Key     string `json:"key"`
	ID      string `json:"stream"`
	LastSeq uint64 `json:"last_seq"` // the key's last Eusn-Seq
	Held    int    `json:"held"`     // held messages of the key
	Samples int64  `json:"samples"`  // in the open sequence; window: since it began
	Flags   string `json:"flags"`    // flags of the next prediction, of any state
	// Integrity is the integrity of the next prediction at a sequence's end.
	Integrity string     `json:"integrity"`
	Rows      [][]uint32 `json:"rows"`   // state rows as in engine.Layout, nil without an open sequence
	Digest    string     `json:"digest"` // of everything above but Flags and Integrity
}

// ReadState decodes a snapshot, from any source.
func ReadState(b []byte) (PartitionState, error) {
	sh, part, err := state.ShapeIn(b)
	if err != nil {
		return PartitionState{}, err
	}
	p, err := state.Decode(b, sh, part)
	if err == nil && p.Away > 0 {
		err = state.ErrApart
	}
	if err != nil {
		return PartitionState{}, err
	}
	out := PartitionState{Partition: part, InSeq: p.Done}
	for _, src := range p.Sources {
		for _, st := range src.Streams {
			s := StreamState{Key: src.Key, ID: st.ID, LastSeq: src.Last, Held: len(src.Held), Samples: st.Seq.N, Rows: st.Rows}
			f := st.Since
			for _, g := range st.Flags {
				f |= g
			}
			s.Flags, s.Integrity = f.String(), f.Integrity()
			s.Digest = wire.HashOf(fmt.Appendf(nil, "%q %q %d %d %d %v", s.Key, s.ID, s.LastSeq, s.Held, s.Samples, s.Rows)).String()
			out.Streams = append(out.Streams, s)
		}
	}
	slices.SortFunc(out.Streams, func(a, b StreamState) int {
		if c := strings.Compare(a.Key, b.Key); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return out, nil
}
