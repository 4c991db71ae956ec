package outbox

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/durable"
)

// A segment of more than segmentBytes, and of more than a share of all segments, is followed
// by another. If there are then more than spareSegments, and waiting payloads are less than
// a share of all segments, the waiting batches of the oldest segment move to the newest.
const (
	segmentBytes  = 1 << 20
	segmentShare  = 16
	spareSegments = 4
	waitingShare  = 4
)

type segment struct {
	n       int
	f       *os.File
	size    int64
	waiting int
}

func segmentNumbers(dir string) ([]int, error) {
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	var numbers []int
	for _, e := range names {
		if tail, ok := strings.CutPrefix(e.Name(), "outbox-"); ok {
			if n, err := strconv.Atoi(tail); err == nil {
				numbers = append(numbers, n)
			}
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

func (l *Log) segmentPath(n int) string { return filepath.Join(l.dir, "outbox-"+strconv.Itoa(n)) }

// newSegment begins a segment with the whole remembered state, and deletes unneeded
// segments.
func (l *Log) newSegment(n int) error {
	rec := l.Sessions.encodeSessions(l.encodeNumbers(appendText(appendText(beginRecord(nil, kindAll), l.Input), bootID())))
	if int64(len(rec)) > math.MaxUint32 {
		return fmt.Errorf("outbox: %d bytes of numbers and sessions, want at most %d", len(rec), uint32(math.MaxUint32))
	}
	f, err := os.OpenFile(l.segmentPath(n), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("outbox: %w", err)
	}
	first := slices.Concat(magic, sealRecord(rec))
	s := &segment{n: n, f: f, size: int64(len(first))}
	l.segs = append(l.segs, s)
	if _, err = f.WriteAt(first, 0); err != nil {
		err = fmt.Errorf("outbox: %w", err)
	} else if l.closed { // or a power loss might leave that end as the log's
		err = l.syncSegment()
	}
	if err != nil {
		l.segs = l.segs[:len(l.segs)-1]
		f.Close()
		os.Remove(f.Name())
		return err
	}
	l.closed = false
	l.sweepSegments()
	total := int64(0)
	for _, s := range l.segs {
		total += s.size
	}
	l.roll = max(segmentBytes, 8*s.size, total/segmentShare)
	if len(l.segs) > spareSegments && total > waitingShare*l.bytes {
		before := s.size
		if err := l.moveOldest(); err != nil {
			l.log.Warn("a segment of the outbox cannot be deleted", "err", err)
		}
		l.roll += s.size - before
	}
	return nil
}

// moveOldest copies the waiting batches of the oldest segment to the newest, and deletes
// unneeded segments: a batch that waits long would keep all later segments. The copies are
// synced first, because the old records are long on the disk.
func (l *Log) moveOldest() error {
	old, s := l.segs[0], l.segs[len(l.segs)-1]
	moved := l.waitingIn(old)
	at := make([]int64, len(moved))
	var rec []byte
	for i, b := range moved {
		p, err := l.Payload(b)
		if err != nil {
			return err
		}
		rec = append(encodeBatch(binary.AppendUvarint(beginRecord(rec, kindMoved), l.last), b.id, b.Message, nil), p...)
		if err := l.appendRecord(sealRecord(rec)); err != nil {
			return err
		}
		at[i] = s.size - int64(b.size)
	}
	if err := cmp.Or(durable.Sync(s.f), durable.SyncFolder(l.dir)); err != nil {
		return fmt.Errorf("outbox: %w", err)
	}
	for i, b := range moved {
		b.seg, b.at = s, at[i]
	}
	old.waiting, s.waiting = 0, s.waiting+len(moved)
	l.sweepSegments()
	return nil
}

// waitingIn returns the waiting batches of a segment, or of all segments, in the order of
// their ids.
func (l *Log) waitingIn(s *segment) []*Batch {
	var all []*Batch
	for _, b := range l.waiting {
		if s == nil || b.seg == s {
			all = append(all, b)
		}
	}
	slices.SortFunc(all, func(a, b *Batch) int { return cmp.Compare(a.id, b.id) })
	return all
}

// sweepSegments deletes the oldest segments without a waiting batch. A later segment
// stays as long as an older one: the later segment may record the storage of an older
// segment's batch.
func (l *Log) sweepSegments() {
	for len(l.segs) > 1 && l.segs[0].waiting == 0 {
		s := l.segs[0]
		l.segs = l.segs[1:]
		s.f.Close()
		if err := os.Remove(s.f.Name()); err != nil {
			l.log.Warn("a segment of the outbox cannot be deleted", "err", err)
		}
	}
}
