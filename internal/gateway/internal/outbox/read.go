package outbox

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/producer"
)

// readSegment takes over a segment of an earlier run.
func (l *Log) readSegment(n int) error {
	f, err := os.OpenFile(l.segmentPath(n), os.O_RDWR, 0) // Windows syncs no other files
	if err != nil {
		return fmt.Errorf("outbox: %w", err)
	}
	s := &segment{n: n, f: f}
	l.segs = append(l.segs, s)
	r := bufio.NewReaderSize(f, 64<<10)
	first := make([]byte, len(magic))
	k, err := io.ReadFull(r, first)
	switch {
	case err != nil && bytes.HasPrefix(magic, first[:k]):
		return nil // the process ended while it made the file
	case len(bytes.Trim(first[:k], "\x00")) == 0: // a power loss: the length is on the disk, the data is not
		return l.keepDamaged(s, errors.New("its beginning was not written"))
	case !bytes.Equal(first, magic):
		return fmt.Errorf("outbox: %s begins with %q, and this program reads version %d (%q): use the program that wrote it, or move the file away", f.Name(), first, version, magic)
	}
	s.size = int64(len(first))
	for {
		err := l.readRecord(s, r)
		switch {
		case err == nil:
			continue
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			l.log.Info("the last record of the outbox was cut off when the gateway ended: no device got an acknowledgement for it", "file", f.Name(), "at", s.size)
			return nil
		}
		return l.keepDamaged(s, err)
	}
}

// keepDamaged keeps a copy of a segment whose later records are unreadable.
func (l *Log) keepDamaged(s *segment, why error) error {
	l.damaged = true
	name := s.f.Name()
	kept := name + ".damaged"
	if err := os.Link(name, kept); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("outbox: %s is damaged at byte %d (%w) and no copy can be kept: %w", name, s.size, why, err)
	}
	l.log.Error("the outbox is damaged: later unpublished messages in this file are lost, and messages that devices resend may be doubled; the next prediction of each stream carries the flag gap; a copy is kept", "file", kept, "at", s.size, "err", why)
	return nil
}

// readRecord reads and applies a record.
func (l *Log) readRecord(s *segment, r *bufio.Reader) error {
	var head [headBytes]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n == 0 {
		return errors.New("a record without a kind")
	}
	if st, err := s.f.Stat(); err != nil {
		return err
	} else if s.size+headBytes+int64(n) > st.Size() {
		return io.ErrUnexpectedEOF
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return err
	}
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(head[4:]) {
		return errors.New("the checksum differs")
	}
	l.closed = body[0] == kindEnd
	rd := &reader{b: body[1:]}
	switch body[0] {
	case kindBatch, kindMoved:
		l.readBatch(s, rd, int64(n), body[0] == kindMoved)
	case kindDone:
		id := rd.u64()
		if b := l.waiting[id]; b != nil {
			l.finishBatch(b)
		}
		if b := l.missing[id]; b != nil {
			b.forget()
			delete(l.missing, id)
		}
	case kindForget:
		l.Sessions.Forget(rd.readText())
	case kindAll:
		l.readState(rd)
	case kindEnd:
	default:
		return fmt.Errorf("a record of kind %q", body[0])
	}
	if rd.err != nil {
		return rd.err
	}
	s.size += headBytes + int64(n)
	return nil
}

// readState replaces the remembered state.
func (l *Log) readState(r *reader) {
	l.Input, l.boot = r.readText(), r.readText()
	clear(l.numbers)
	for left := r.readCount(); left > 0; left-- {
		subject := r.readText()
		l.numbers[subject] = given{Number{r.readText(), r.u64(), r.u64() == 1}, -int64(left)} // the most recent comes last
	}
	l.Sessions.decodeSessions(r, func(id uint64) (b *Batch, lost bool) {
		if b = cmp.Or(l.waiting[id], l.missing[id]); b != nil {
			return b, false
		}
		if len(l.segs) == 1 {
			b = &Batch{id: id}
			l.missing[id] = b
			return b, false
		}
		return nil, l.lacksBatch(id)
	})
}

// settleMissing decides about batches of deleted segments. A segment is deleted after the
// storage of its batches, but a power loss may remove the segment, and keep a later one.
func (l *Log) settleMissing() {
	if len(l.missing) > 0 && l.mayLackEnd() {
		l.reportMissing()
	}
	if l.damaged {
		l.Sessions.forgetBatches(l.missing)
	}
	for _, b := range l.missing {
		b.forget()
	}
	l.missing = nil
}

// lacksBatch reports whether the record of a batch is missing from the read segments.
// Ids have no gaps over segments, and a segment is deleted only after all earlier
// segments.
func (l *Log) lacksBatch(id uint64) bool {
	if len(l.segs) > 1 && id > l.last {
		l.reportMissing()
	}
	return l.damaged
}

// reportMissing reports missing records of batches.
func (l *Log) reportMissing() {
	if !l.damaged {
		l.damaged = true
		l.log.Error("the outbox is damaged: the end of an earlier file is missing, and its unpublished messages are lost; the next prediction of each stream carries the flag gap", "dir", l.dir)
	}
}

// encodeNumbers writes the kept numbers, the most recent last.
func (l *Log) encodeNumbers(dst []byte) []byte {
	subjects := slices.SortedFunc(maps.Keys(l.numbers), func(a, b string) int {
		return cmp.Or(cmp.Compare(l.numbers[a].batch, l.numbers[b].batch), cmp.Compare(a, b))
	})
	for ; len(subjects) > l.most; subjects = subjects[1:] {
		delete(l.numbers, subjects[0])
	}
	dst = binary.AppendUvarint(dst, uint64(len(subjects)))
	for _, subject := range subjects {
		n := l.numbers[subject]
		dst = binary.AppendUvarint(appendText(appendText(dst, subject), n.Incarnation), n.Seq)
		dst = binary.AppendUvarint(dst, bitOf(n.Doubt))
	}
	return dst
}

// readBatch reads a record of n bytes with a batch.
func (l *Log) readBatch(s *segment, r *reader, n int64, moved bool) {
	if moved {
		l.readMoved(s, r, n)
		return
	}
	b := l.decodeBatch(s, r, n)
	if r.err != nil || b.id <= l.last {
		r.err = cmp.Or(r.err, errors.New("a batch out of order"))
		return
	}
	l.lacksBatch(b.id - 1)
	for _, o := range b.Origins {
		b.seen = append(b.seen, l.Sessions.Add(o, b))
	}
	l.last = b.id
	l.numbers[b.Message.Subject] = given{Number{b.Message.Incarnation, b.Message.Seq, false}, int64(b.id)}
	l.addWaiting(b)
}

// readMoved replaces the record of a batch, which may be in a deleted segment.
func (l *Log) readMoved(s *segment, r *reader, n int64) {
	last := r.u64()
	b := l.decodeBatch(s, r, n)
	if r.err != nil || b.id > last {
		r.err = cmp.Or(r.err, errors.New("a moved batch without its number"))
		return
	}
	l.lacksBatch(last)
	l.last = max(l.last, last)
	if old := cmp.Or(l.waiting[b.id], l.missing[b.id]); old != nil {
		b.seen = old.seen
		for _, e := range b.seen {
			e.Batch = b
		}
		delete(l.missing, b.id)
		if old.seg != nil {
			old.seg.waiting--
			l.bytes -= int64(old.size)
		}
	}
	l.addWaiting(b)
}

// decodeBatch reads the fields of a batch from a record of n bytes.
func (l *Log) decodeBatch(s *segment, r *reader, n int64) *Batch {
	m := &producer.Message{}
	b := &Batch{Message: m, seg: s}
	b.id, m.Subject, m.Incarnation, m.Seq = r.u64(), r.readText(), r.readText(), r.u64()
	for range r.readCount() {
		b.Origins = append(b.Origins, Origin{Session: r.readText(), ID: r.u64(), Sum: r.u64(), Part: r.u64(), Again: r.u64() == 1})
	}
	m.End, m.Unreadable = r.u64() == 1, r.readText()
	b.size = len(r.b)
	b.at = s.size + headBytes + n - int64(b.size)
	return b
}
