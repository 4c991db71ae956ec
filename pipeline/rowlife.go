package pipeline

import (
	"context"
	"errors"
	"fmt"
)

// How long a stored row lives: it is written when its stream leaves the
// engine (evict), read when the stream is heard (fetch), and named by every
// snapshot taken between. It is deleted when a record names a snapshot that
// does not name it. What killed workers leave behind is swept (sweepRows).

// freedRows are stored rows that a snapshot after seq names no more.
type freedRows struct {
	seq  uint64
	rows []uint64
}

// free notes which rows the snapshot after seq has put out of use.
func (t *tenure) free(seq uint64, rows []uint64) {
	if len(rows) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.freed = append(t.freed, freedRows{seq, rows})
}

// freedBy takes the rows that nothing names once a record names the snapshot
// after seq.
func (t *tenure) freedBy(seq uint64) (rows []uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.freed) > 0 && t.freed[0].seq <= seq {
		rows = append(rows, t.freed[0].rows...)
		t.freed = t.freed[1:]
	}
	return rows
}

// excuse finds out whether a stored row was missing because another worker
// has the partition by now: its snapshots do not name the rows that ours did.
// Nothing else uses the committer any more.
func (t *tenure) excuse() {
	if err := t.err(); errors.Is(err, errRow) {
		err = t.c.overtaken(t.workers, err)
		t.mu.Lock()
		t.reason = err
		t.mu.Unlock()
	}
}

// stored is which rows of a decoded partition are stored apart.
func (p *partition) stored() map[uint64]bool {
	all := make(map[uint64]bool, p.away)
	for e := p.recency.Front(); e != nil; e = e.Next() {
		for _, ref := range e.Value.(*stream).away {
			if ref.seq > 0 {
				all[ref.seq] = true
			}
		}
	}
	return all
}

// storedRows calls f with the rows of a decoded partition that are stored
// apart, some at a time.
func (s *snapshots) storedRows(ctx context.Context, p *partition, words int, f func(st *stream, state int, row []uint32)) error {
	var refs []rowRef
	var streams []*stream
	var states []int
	flush := func() error {
		rows, errs := s.getRows(ctx, refs, words)
		if err := errors.Join(errs...); err != nil {
			return fmt.Errorf("pipeline: partition %d: %w", p.id, err)
		}
		for i, row := range rows {
			f(streams[i], states[i], row)
		}
		refs, streams, states = refs[:0], streams[:0], states[:0]
		return nil
	}
	for e := p.recency.Front(); e != nil; e = e.Next() {
		st := e.Value.(*stream)
		for i, ref := range st.away {
			if !st.isAway(i) {
				continue
			}
			refs, streams, states = append(refs, ref), append(streams, st), append(states, i)
			if len(refs) == rowsAtOnce {
				if err := flush(); err != nil {
					return err
				}
			}
		}
	}
	return flush()
}

// whole is a snapshot that names no row stored apart: it holds them.
func (s *snapshots) whole(ctx context.Context, b []byte) ([]byte, error) {
	sh, part, err := shapeIn(b)
	if err != nil {
		return nil, err
	}
	p, err := decodeSnapshot(b, sh, part)
	if err != nil || p.away == 0 {
		return b, err
	}
	err = s.storedRows(ctx, p, sh.words, func(st *stream, state int, row []uint32) { st.rows[state] = row })
	if err != nil {
		return nil, err
	}
	return p.snapshot(sh, decodedRows{})
}

// errApart is a snapshot that is not complete by itself.
var errApart = errors.New("pipeline: snapshot: it names state rows that are stored apart: take one that eusn-stream state export has written")
