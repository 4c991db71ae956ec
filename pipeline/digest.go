package pipeline

import (
	"fmt"

	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
)

// form is the version of the state's bytes that the partition's digest is of:
// ours, but where it is to be compared with a record of an older program, its.
func (p *partition) form() uint32 {
	if p.verifyAt > 0 && p.wantVersion < wire.StateVersion { // 0: of a program before records said so
		return wire.OldestState
	}
	return wire.StateVersion
}

// rehash brings a partition's digest up to date with what was touched since
// the last time. It belongs after the engine call, when rows are settled.
func (s *shard) rehash(p *partition) error {
	form := p.form()
	for _, st := range p.dirty {
		st.dirty = false
		if st.gone {
			continue
		}
		buf := appendString(append(s.bytes[:0], 's'), st.source.key)
		buf, err := appendStream(buf, st, (*rowHasher)(s), form)
		if err != nil {
			return fmt.Errorf("pipeline: partition %d: state of stream %q: %w", p.id, st.id, err)
		}
		s.bytes = buf
		h := wire.HashOf(buf)
		p.sum.Sub(st.hash)
		p.sum.Add(h)
		st.hash = h
	}
	for _, src := range p.dirtySources {
		src.dirty = false
		if src.gone {
			continue
		}
		s.bytes = appendSource(append(s.bytes[:0], 'k'), src, form)
		h := wire.HashOf(s.bytes)
		p.sum.Sub(src.hash)
		p.sum.Add(h)
		src.hash = h
	}
	clear(p.dirty)
	clear(p.dirtySources)
	p.dirty, p.dirtySources = p.dirty[:0], p.dirtySources[:0]
	return nil
}

// readRow reads a state row, valid until the next call.
func (s *shard) readRow(slot int32) ([]uint32, error) {
	return s.pool.row, s.pool.engine.ReadState(slot, s.pool.row)
}

// rowHasher writes the hash of a row in the place of the row, so that a row
// that is stored apart need not be read to hash its stream.
type rowHasher shard

func (h *rowHasher) appendRow(dst []byte, st *stream, state int) ([]byte, error) {
	switch {
	case st.slots[state] >= 0:
		row, err := (*shard)(h).readRow(st.slots[state])
		h.rowBytes = appendRowWords(h.rowBytes[:0], row)
		return wire.AppendDigest(append(dst, rowHere), wire.HashOf(h.rowBytes)), err
	case st.isAway(state):
		return wire.AppendDigest(append(dst, rowHere), st.away[state].hash), nil
	}
	return append(dst, rowNone), nil
}

// check compares the state with what the commit record says of it, once it has
// come so far. From then on the digest is of our own form of the state.
func (s *shard) check(p *partition) error {
	if p.verifyAt == 0 || p.done < p.verifyAt {
		return nil
	}
	p.rebuiltSum = p.sum
	if err := p.verify(); err != nil {
		p.tenure.fail(err)
		return nil
	}
	if p.wantVersion >= wire.StateVersion {
		return nil
	}
	return s.recount(p)
}

// recount makes the digest anew, in the form that is now the partition's.
func (s *shard) recount(p *partition) error {
	for _, src := range p.sources {
		p.touchSource(src)
		for _, st := range src.streams {
			p.touch(st)
		}
	}
	return s.rehash(p)
}

func (p *partition) verify() error {
	want, at := p.want, p.verifyAt
	p.verifyAt = 0
	if p.sum == want {
		return nil
	}
	return fmt.Errorf("pipeline: partition %d: the state rebuilt up to input message %d has digest %v, its commit record says %v: "+
		"input between snapshot and record was removed or changed, or the record, the model's arithmetic, non_finite, reorder or max_streams differ%s; "+
		"nothing is predicted from a wrong state: put back the settings it had (they may change once the job was stopped in order), restore the job's streams, or begin a new job", p.id, at, p.sum, want, p.orOlder())
}

// orOlder says what else may be different where a record does not say which
// form of the state its digest is of.
func (p *partition) orOlder() string {
	if p.wantVersion > 0 {
		return p.instead
	}
	return p.instead + ", or a program from before the first release wrote the record"
}
