package state

import (
	"fmt"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Mismatch reports a state that differs from its record.
type Mismatch struct {
	at        uint64
	got, want wire.Digest
}

func (e *Mismatch) Error() string {
	return fmt.Sprintf("the state rebuilt up to input message %d has digest %v, but its commit record has %v", e.at, e.got, e.want)
}

// UpdateDigest updates the partition's digest for the streams changed since the
// previous update. Call it after the engine call, when rows are final.
func (s *Machine) UpdateDigest(p *Partition, rows RowReader) error {
	s.hasher.rows = rows
	for _, st := range p.dirty {
		st.dirty = false
		if st.gone {
			continue
		}
		buf := AppendString(append(s.bytes[:0], 's'), st.Source.Key)
		buf, err := AppendStream(buf, st, &s.hasher)
		if err != nil {
			return fmt.Errorf("pipeline: partition %d: state of stream %q: %w", p.ID, st.ID, err)
		}
		s.bytes = buf
		h := wire.HashOf(buf)
		p.Sum.Sub(st.hash)
		p.Sum.Add(h)
		st.hash = h
	}
	for _, src := range p.dirtySources {
		src.dirty = false
		if src.gone {
			continue
		}
		s.bytes = AppendSource(append(s.bytes[:0], 'k'), src)
		h := wire.HashOf(s.bytes)
		p.Sum.Sub(src.hash)
		p.Sum.Add(h)
		src.hash = h
	}
	clear(p.dirty)
	clear(p.dirtySources)
	p.dirty, p.dirtySources = p.dirty[:0], p.dirtySources[:0]
	return nil
}

// CompareDigest compares the state with the record's digest when the state has reached
// the record's position (compared); the error is a *Mismatch.
func (p *Partition) CompareDigest() (compared bool, err error) {
	want := p.Want
	if want.At == 0 || p.Done < want.At {
		return false, nil
	}
	p.Want.At = 0
	if p.Sum != want.Digest {
		return true, &Mismatch{want.At, p.Sum, want.Digest}
	}
	return true, nil
}

// ForgetChanges drops the list of changed streams, for a state whose digest is not
// needed.
func (p *Partition) ForgetChanges() {
	for _, st := range p.dirty {
		st.dirty = false
	}
	for _, src := range p.dirtySources {
		src.dirty = false
	}
	clear(p.dirty)
	clear(p.dirtySources)
	p.dirty, p.dirtySources = p.dirty[:0], p.dirtySources[:0]
}
