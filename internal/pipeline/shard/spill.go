package shard

import (
	"errors"
	"fmt"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// evictShare is the part of a full pool that is stored at once: one round trip to the
// server frees this many slots.
const evictShare = 16

// leavingShare is the part of a pool whose slots forgotten streams free before a full pool grows.
// Without this rule a flood of new names takes a slot for each row of a batch: 32,000 instead of
// stage.max_streams.
const leavingShare = 4

// residents are a shard's streams with state rows in the engine, in the order of their
// last use: a list through the streams, so that an update costs a few writes and no
// memory.
type residents struct{ newest, oldest *state.Stream }

// markUsed makes a stream the newest.
func (l *residents) markUsed(st *state.Stream) {
	if l.newest == st {
		return
	}
	l.removeStream(st)
	st.Older = l.newest
	if l.newest != nil {
		l.newest.Newer = st
	} else {
		l.oldest = st
	}
	l.newest = st
}

// removeStream removes a stream, if present.
func (l *residents) removeStream(st *state.Stream) {
	switch {
	case st.Newer != nil:
		st.Newer.Older = st.Older
	case l.newest == st:
		l.newest = st.Older
	}
	switch {
	case st.Older != nil:
		st.Older.Newer = st.Newer
	case l.oldest == st:
		l.oldest = st.Newer
	}
	st.Newer, st.Older = nil, nil
}

// arrival is a stored row that returns to a slot.
type arrival struct {
	part *Partition
	slot int32
	ref  wire.RowRef
}

// placeRow gives one state of a stream a slot, and schedules the read of its stored row
// before the next engine call. reset: the row's content does not matter.
func (s *slots) placeRow(b *Batch, st *state.Stream, phase int, reset bool) error {
	slot, err := s.findSlot(b)
	if err != nil {
		return err
	}
	st.Slots[phase] = slot
	if !st.IsAway(phase) {
		return nil
	}
	if !reset {
		s.arrivals = append(s.arrivals, arrival{partOf(st), slot, st.Away[phase]})
		s.counters.Fetched.Add(1)
	}
	s.forgetStored(st, phase)
	return nil
}

// forgetStored lets go of a stored row.
func (s *slots) forgetStored(st *state.Stream, phase int) {
	st.ForgetStored(phase)
	s.counters.Away.Add(-1)
}

// findSlot returns a free slot: of the pool, of a sequence that has ended in the batch,
// or of the streams used least recently. Pending runs are computed before a slot
// changes its stream, so that a slot serves one stream per call.
func (s *slots) findSlot(b *Batch) (int32, error) {
	if s.pool.full() && len(s.leaving) >= max(manySlots, s.pool.engine.Slots())/leavingShare {
		if err := s.computeBatch(b); err != nil {
			return 0, err
		}
		s.releaseSlots()
	}
	slot, err := s.pool.takeSlot()
	if !errors.Is(err, errSlots) {
		return slot, err
	}
	if err := s.computeBatch(b); err != nil {
		return 0, err
	}
	s.releaseSlots()
	if slot, err = s.pool.takeSlot(); !errors.Is(err, errSlots) {
		return slot, err
	}
	if err := s.evictRows(err); err != nil {
		return 0, err
	}
	return s.pool.takeSlot()
}

// evictRows stores the rows of the streams used least recently and frees their slots.
// full is the reason. It is enough if the store accepts some rows; if the store accepts
// none, rows of failed partitions are dropped, because they are no longer needed.
func (s *slots) evictRows(full error) error {
	size := 4 * s.words
	switch {
	case s.store == nil:
		return full
	case size > s.store.RowLimit():
		if s.freeEnded() {
			return nil
		}
		return fmt.Errorf("%w; their states cannot be stored on the server either: a state has %d bytes, the server accepts messages of at most %d (max_payload): %w", full, size, s.store.RowLimit(), store.ErrLater)
	}
	n := max(1, s.pool.max/evictShare)
	n = min(n, store.RowsAtOnce, max(1, store.RowBytesAtOnce/size))
	var rows []store.StoredRow
	var from []*state.Stream // of each row
	for st := s.residents.oldest; st != nil && len(rows) < n; st = st.Newer {
		for _, slot := range st.Slots {
			if slot < 0 {
				continue
			}
			words, err := s.ReadRow(slot)
			if err != nil {
				return fmt.Errorf("pipeline: state of stream %q: %w", st.ID, err)
			}
			p, data := partOf(st), state.AppendRowWords(make([]byte, 0, size), words)
			worker, epoch := p.Owner.Claim()
			s.stored++
			from = append(from, st)
			rows = append(rows, store.StoredRow{
				Subject: wire.RowSubject(s.store.Job, p.State.ID, epoch), ID: fmt.Sprintf("%s.%d.%d", worker, p.State.ID, s.stored),
				Data: data, Slot: slot, Ref: wire.RowRef{Hash: wire.HashOf(data)},
			})
		}
	}
	err := s.store.PutRows(s.last, rows)
	if s.storeRows(rows, from) || s.freeEnded() {
		return nil
	}
	return err
}

// storeRows frees the slots of stored rows and reports whether any row was stored.
func (s *slots) storeRows(rows []store.StoredRow, from []*state.Stream) bool {
	n := 0
	for k, st := range from {
		if rows[k].Ref.Seq == 0 {
			continue
		}
		st.PutAway(slices.Index(st.Slots, rows[k].Slot), rows[k].Ref)
		s.pool.releaseSlot(rows[k].Slot)
		if !slices.ContainsFunc(st.Slots, func(slot int32) bool { return slot >= 0 }) {
			s.residents.removeStream(st)
		}
		n++
	}
	s.counters.Away.Add(int64(n))
	s.counters.Spilled.Add(uint64(n))
	s.countSlots()
	return n > 0
}

// freeEnded frees the slots of partitions with failed ownerships, and reports whether
// such partitions existed. No pending run uses such a slot: runs are computed before a
// slot changes its stream.
func (s *slots) freeEnded() bool {
	before := s.pool.usedSlots()
	for st := s.residents.oldest; st != nil; {
		next := st.Newer
		if partOf(st).Failed() {
			for i, slot := range st.Slots {
				if slot >= 0 {
					s.pool.releaseSlot(slot)
					st.Slots[i] = -1
				}
			}
			s.residents.removeStream(st)
		}
		st = next
	}
	s.countSlots()
	return s.pool.usedSlots() < before
}

// ReadRow reads a state row, valid until the next call.
func (s *slots) ReadRow(slot int32) ([]uint32, error) {
	return s.pool.row, s.pool.engine.ReadState(slot, s.pool.row)
}

// requestRows reads the stored rows that the pending runs need into their slots. A
// missing row ends its partition's ownership, not the stage.
func (s *slots) requestRows() {
	if len(s.arrivals) == 0 {
		return
	}
	refs := make([]wire.RowRef, len(s.arrivals))
	for i, a := range s.arrivals {
		refs[i] = a.ref
	}
	rows, errs := s.store.GetRows(s.last, refs, s.words)
	for i, a := range s.arrivals {
		if errs[i] == nil {
			errs[i] = s.pool.engine.WriteState(a.slot, rows[i])
		}
		if errs[i] != nil {
			s.giveUpOn(a.part, errs[i])
		}
	}
	s.arrivals = s.arrivals[:0]
}
