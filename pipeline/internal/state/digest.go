package state

import (
	"fmt"

	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
)

// Mismatch is a state that did not come out as its record says.
type Mismatch struct {
	at        uint64
	got, want wire.Digest
}

func (e *Mismatch) Error() string {
	return fmt.Sprintf("the state rebuilt up to input message %d has digest %v, its commit record says %v", e.at, e.got, e.want)
}

// form is the form of the states that the partition's digest covers: the model's,
// or the record's until it is compared, if that has no times and the model has.
func (p *Partition) form(sh *Shape) uint32 {
	if p.Want.At > 0 && p.Want.Version < uint64(sh.Version()) {
		return max(wire.StateVersion, uint32(p.Want.Version))
	}
	return sh.Version()
}

// Rehash brings a partition's digest up to date with what was touched since
// the last time. It belongs after the engine call, when rows are settled.
func (s *Machine) Rehash(p *Partition, rows RowReader) error {
	form := p.form(&s.Shape)
	s.hasher.rows = rows
	for _, st := range p.dirty {
		st.dirty = false
		if st.gone {
			continue
		}
		buf := AppendString(append(s.bytes[:0], 's'), st.Source.Key)
		buf, err := AppendStream(buf, st, &s.hasher, form)
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

// Check compares the state with what the record says of it, once it has come so
// far (compared); the error is a *mismatch. From then on the digest is of our
// own form of the state.
func (s *Machine) Check(p *Partition, rows RowReader) (compared bool, err error) {
	want := p.Want
	if want.At == 0 || p.Done < want.At {
		return false, nil
	}
	p.Want.At = 0
	if p.Sum != want.Digest {
		return true, &Mismatch{want.At, p.Sum, want.Digest}
	}
	if want.Version >= uint64(s.Shape.Version()) {
		return true, nil
	}
	return true, s.recount(p, rows)
}

// recount computes the digest again, in the form that is now the partition's.
func (s *Machine) recount(p *Partition, rows RowReader) error {
	for _, src := range p.Sources {
		p.touchSource(src)
		for _, st := range src.Streams {
			p.Touch(st)
		}
	}
	return s.Rehash(p, rows)
}

// Recast gives the streams of a snapshot that was taken without remembered
// samples room for one, or takes theirs away: non_finite has changed to hold, or
// from it. Until a stream's next sample, what is missing is then held at the
// training data's mean. Where nothing is replayed, the record's digest is of the
// state as it was. A replay under another policy than the record's comes out
// with another digest, whose streams have other bytes. Where the streams are as
// they should be, nothing happens.
func (s *Machine) Recast(p *Partition, rows RowReader) error {
	if !p.wasOther {
		return nil
	}
	p.wasOther, p.Unnamed = false, true
	if p.Done >= p.Want.At && p.Sum == p.Want.Digest {
		p.Want.At = 0
	}
	for e := p.recency.Front(); e != nil; e = e.Next() {
		st := e.Value.(*Stream)
		st.sample, st.heard = nil, false
		if s.Shape.channels > 0 {
			st.sample = make([]float32, s.Shape.channels)
		}
	}
	return s.recount(p, rows)
}

// Unhashed forgets which streams have changed since the digest: of a state that is
// neither stored nor compared.
func (p *Partition) Unhashed() {
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
