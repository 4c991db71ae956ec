package owner

import (
	"context"
	"errors"
	"fmt"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Lifetime of a stored row: it is written when its stream leaves the engine
// (evictRows), read when the stream sends samples (requestRows), and named by every
// snapshot taken between. It is deleted some minutes after a record names a snapshot
// without the row (retire.go). Objects left by killed workers are swept
// (store.Snapshots.SweepRows).

// storedRows calls f with the stored rows of a decoded partition, in portions.
func storedRows(ctx context.Context, s *store.Snapshots, p *state.Partition, words int, f func(st *state.Stream, phase int, row []uint32)) error {
	var refs []wire.RowRef
	var streams []*state.Stream
	var states []int
	flush := func() error {
		rows, errs := s.GetRows(ctx, refs, words)
		if err := errors.Join(errs...); err != nil {
			return fmt.Errorf("pipeline: partition %d: %w", p.ID, err)
		}
		for i, row := range rows {
			f(streams[i], states[i], row)
		}
		refs, streams, states = refs[:0], streams[:0], states[:0]
		return nil
	}
	for st := range p.Oldest() {
		for i, ref := range st.Away {
			if !st.IsAway(i) {
				continue
			}
			refs, streams, states = append(refs, ref), append(streams, st), append(states, i)
			if len(refs) == store.RowsAtOnce {
				if err := flush(); err != nil {
					return err
				}
			}
		}
	}
	return flush()
}

// IncludeRows returns a snapshot with all rows.
func IncludeRows(ctx context.Context, s *store.Snapshots, b []byte) ([]byte, error) {
	sh, part, err := state.ShapeIn(b)
	if err != nil {
		return nil, err
	}
	p, err := state.Decode(b, sh, part)
	if err != nil || p.Away == 0 {
		return b, err
	}
	err = storedRows(ctx, s, p, sh.Words, func(st *state.Stream, phase int, row []uint32) { st.Rows[phase] = row })
	if err != nil {
		return nil, err
	}
	return p.Encode(sh, state.DecodedRows{})
}
