package pipeline

import (
	"errors"
	"fmt"
	"slices"

	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
)

// evictShare is the part of a full pool that is stored at once: one round
// trip to the server makes room for so many.
const evictShare = 16

// residents are a shard's streams that hold state rows in the engine, in the
// order of their last use: a list through the streams themselves, so that
// keeping it costs a few writes and no memory.
type residents struct{ newest, oldest *stream }

// use makes a stream the newest.
func (l *residents) use(st *stream) {
	if l.newest == st {
		return
	}
	l.remove(st)
	st.older = l.newest
	if l.newest != nil {
		l.newest.newer = st
	} else {
		l.oldest = st
	}
	l.newest = st
}

// remove takes a stream out, if it is in.
func (l *residents) remove(st *stream) {
	switch {
	case st.newer != nil:
		st.newer.older = st.older
	case l.newest == st:
		l.newest = st.older
	}
	switch {
	case st.older != nil:
		st.older.newer = st.newer
	case l.oldest == st:
		l.oldest = st.newer
	}
	st.newer, st.older = nil, nil
}

// arrival is a stored row on its way back into a slot.
type arrival struct {
	part *partition
	slot int32
	ref  rowRef
}

// isAway reports whether the row of one of a stream's states is stored apart.
func (st *stream) isAway(state int) bool { return st.away != nil && st.away[state].seq > 0 }

// place gives one of a stream's states a slot, and has its row read before
// the engine's next call where it was stored. reset says that the row's
// content does not matter.
func (s *shard) place(b *batch, st *stream, state int, reset bool) error {
	slot, err := s.slot(b)
	if err != nil {
		return err
	}
	st.slots[state] = slot
	if !st.isAway(state) {
		return nil
	}
	if !reset {
		s.arrivals = append(s.arrivals, arrival{st.source.part, slot, st.away[state]})
		s.counters.fetched.Add(1)
	}
	s.disown(st, state)
	return nil
}

// disown lets go of a stored row: what the state is from now on does not name
// it. Older snapshots may; it is deleted when none does.
func (s *shard) disown(st *stream, state int) {
	p := st.source.part
	p.freed = append(p.freed, st.away[state].seq)
	p.away--
	s.counters.away.Add(-1)
	st.away[state] = rowRef{}
}

// slot takes a free slot: of the pool, of a sequence that has ended in the
// batch, or of the streams that were used least recently. The runs in hand are
// computed before a slot changes hands, so that it serves one stream per call.
func (s *shard) slot(b *batch) (int32, error) {
	slot, err := s.pool.take()
	if !errors.Is(err, errSlots) {
		return slot, err
	}
	if err := s.compute(b); err != nil {
		return 0, err
	}
	s.releaseSlots()
	if slot, err = s.pool.take(); !errors.Is(err, errSlots) {
		return slot, err
	}
	if err := s.evict(err); err != nil {
		return 0, err
	}
	return s.pool.take()
}

// evict stores the rows of the streams used least recently and frees their
// slots. full is why. Where the store takes some of them, that is enough; where
// it takes none, those of a partition that has failed make room, for nobody
// needs them any more.
func (s *shard) evict(full error) error {
	size := 4 * s.shape.words
	switch {
	case s.store == nil:
		return full
	case size > s.store.rowLimit():
		if s.reclaim() {
			return nil
		}
		return fmt.Errorf("%w; they cannot be stored either: a row has %d bytes, the server takes messages of %d (max_payload): %w", full, size, s.store.rowLimit(), errLater)
	}
	n := max(1, s.pool.max/evictShare)
	n = min(n, rowsAtOnce, max(1, rowBytesAtOnce/size))
	var rows []storedRow
	var from []*stream // of each row
	for st := s.residents.oldest; st != nil && len(rows) < n; st = st.newer {
		for _, slot := range st.slots {
			if slot < 0 {
				continue
			}
			words, err := s.readRow(slot)
			if err != nil {
				return fmt.Errorf("pipeline: state of stream %q: %w", st.id, err)
			}
			p, data := st.source.part, appendRowWords(make([]byte, 0, size), words)
			s.stored++
			from = append(from, st)
			rows = append(rows, storedRow{
				subject: wire.RowSubject(s.store.job, p.id, p.tenure.epoch.Load()), id: fmt.Sprintf("%s.%d.%d", p.tenure.worker, p.id, s.stored),
				data: data, slot: slot, ref: rowRef{hash: wire.HashOf(data)},
			})
		}
	}
	err := s.store.putRows(s.last, rows)
	if s.depart(rows, from) || s.reclaim() {
		return nil
	}
	return err
}

// depart frees the slots of rows that are stored and reports whether any is.
func (s *shard) depart(rows []storedRow, from []*stream) bool {
	n := 0
	for k, st := range from {
		if rows[k].ref.seq == 0 {
			continue
		}
		if st.away == nil {
			st.away = make([]rowRef, len(st.slots))
		}
		i := slices.Index(st.slots, rows[k].slot)
		st.away[i], st.slots[i] = rows[k].ref, -1
		s.pool.release(rows[k].slot)
		st.source.part.away++
		st.source.part.unnamed = true
		if !slices.ContainsFunc(st.slots, func(slot int32) bool { return slot >= 0 }) {
			s.residents.remove(st)
		}
		n++
	}
	s.counters.away.Add(int64(n))
	s.counters.spilled.Add(uint64(n))
	s.countSlots()
	return n > 0
}

// reclaim frees the slots of partitions whose tenures have failed, and reports
// whether there were any. No run in hand uses them: they are computed before a
// slot changes hands.
func (s *shard) reclaim() bool {
	before := s.pool.used()
	for st := s.residents.oldest; st != nil; {
		next := st.newer
		if st.source.part.failed() {
			for i, slot := range st.slots {
				if slot >= 0 {
					s.pool.release(slot)
					st.slots[i] = -1
				}
			}
			s.residents.remove(st)
		}
		st = next
	}
	s.countSlots()
	return s.pool.used() < before
}

// fetch brings the rows that the runs in hand need into their slots. A row
// that cannot be had ends its partition's tenure, not the stage.
func (s *shard) fetch() {
	if len(s.arrivals) == 0 {
		return
	}
	refs := make([]rowRef, len(s.arrivals))
	for i, a := range s.arrivals {
		refs[i] = a.ref
	}
	rows, errs := s.store.getRows(s.last, refs, s.shape.words)
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
