package outbox

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A segment of more than segmentBytes, and of more than a share of all segments, is followed
// by another.
const (
	segmentBytes = 1 << 20
	segmentShare = 16
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
	return nil
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
