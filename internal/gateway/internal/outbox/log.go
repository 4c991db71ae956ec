package outbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/eusn-stream/eusn-stream/internal/dirlock"
	"github.com/eusn-stream/eusn-stream/internal/durable"
	"github.com/eusn-stream/eusn-stream/internal/producer"
)

// Batch is a numbered message to the server.
type Batch struct {
	Message *producer.Message
	Origins []Origin // of its repeatable device messages

	id   uint64 // in the log; 0: not there yet
	seen []*Seen
	seg  *segment
	at   int64 // of the payload in the segment
	size int   // of the payload
}

// Add records that the batch holds a part of a device's message.
func (b *Batch) Add(o Origin, s *Sessions) {
	b.Origins = append(b.Origins, o)
	b.seen = append(b.seen, s.Add(o, b))
}

// Number is the last number of a subject.
type Number struct {
	Incarnation string
	Seq         uint64
	// Doubt: a power loss may have removed later numbers from the log.
	Doubt bool
}

// maxNumbers is how many subjects' numbers are kept: the most recently numbered. For
// other subjects the input has the number, as long as the subject's messages exist.
const maxNumbers = 1 << 20

// Log is an outbox. It belongs to one goroutine.
type Log struct {
	Sessions *Sessions
	Input    string           // the input of the numbers; empty: not set
	numbers  map[string]given // by subject
	most     int              // numbers
	boot     string           // of the machine, when the segment read last was begun
	damaged  bool             // a segment: records are missing
	closed   bool             // the record read last marks all earlier records as synced
	dir      string
	log      *slog.Logger
	segs     []*segment // oldest first; the last is written
	waiting  map[uint64]*Batch
	missing  map[uint64]*Batch // waiting at the beginning of the first segment, without a record
	last     uint64            // id given last
	bytes    int64             // of waiting payloads
	rec      []byte
	pending  []byte // records of facts that are not written yet
	roll     int64  // size of the last segment, from which another follows; 0: the next record needs another
	release  func() // the directory
}

// given is a subject's last number, with the batch.
type given struct {
	Number
	batch int64 // the id; negative: earlier than all batches with an id
}

// Open opens the outbox in dir, for a single process at a time, and creates a missing
// dir. Open returns the waiting batches, in the order of their numbers within each key.
// An outbox of an earlier run opens although nothing can be written to the disk.
func Open(dir string, window map[string]int, log *slog.Logger) (*Log, []*Batch, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("outbox: %w", err)
	}
	l := &Log{Sessions: NewSessions(window), numbers: map[string]given{}, most: maxNumbers, dir: dir, log: log, waiting: map[uint64]*Batch{}, missing: map[uint64]*Batch{}}
	var err error
	lock := filepath.Join(dir, "lock")
	if l.release, err = dirlock.Take(lock); errors.Is(err, dirlock.ErrHeld) {
		return nil, nil, fmt.Errorf("outbox: another gateway uses the directory %s: stop it, or choose another directory%s", dir, dirlock.Remedy(lock))
	} else if err != nil {
		return nil, nil, fmt.Errorf("outbox: %w", err)
	}
	if err := l.beginSegment(); err != nil {
		l.Close()
		return nil, nil, err
	}
	return l, l.waitingIn(nil), nil
}

// beginSegment reads the segments, and begins a new segment.
func (l *Log) beginSegment() error {
	numbers, err := segmentNumbers(l.dir)
	if err != nil {
		return err
	}
	next := 1
	for _, n := range numbers {
		if err := l.readSegment(n); err != nil {
			return err
		}
		next = n + 1
	}
	l.settleMissing()
	l.doubtNumbers()
	if err := l.newSegment(next); err != nil && len(numbers) == 0 {
		return err
	}
	return nil
}

// doubtNumbers records the uncertainties after an end without Close: the numbers after
// a restart of the machine, and the answers to devices after a restart of the process.
func (l *Log) doubtNumbers() {
	if l.mayLackEnd() {
		for subject, n := range l.numbers {
			n.Doubt = true
			l.numbers[subject] = n
		}
	} else if !l.damaged { // or the missing part may contain the storage of a batch
		for _, b := range l.waiting {
			for _, e := range b.seen {
				e.untold = true
			}
		}
	}
	if l.damaged { // of any subject, batches may be missing
		clear(l.numbers)
	}
}

// mayLackEnd reports whether the machine may have lost power since the last record.
func (l *Log) mayLackEnd() bool { return !l.closed && (l.boot == "" || l.boot != bootID()) }

// Put writes a batch; its number is then final.
func (l *Log) Put(b *Batch) error {
	m := b.Message
	l.rec = append(encodeBatch(beginRecord(l.rec, kindBatch), l.last+1, m, b.Origins), m.Payload...)
	if err := l.writeRecord(l.rec); err != nil {
		return err
	}
	l.last++
	s := l.segs[len(l.segs)-1]
	b.id, b.seg, b.at, b.size = l.last, s, s.size-int64(len(m.Payload)), len(m.Payload)
	l.numbers[m.Subject] = given{Number{m.Incarnation, m.Seq, false}, int64(b.id)}
	l.addWaiting(b)
	return nil
}

func (l *Log) addWaiting(b *Batch) {
	b.seg.waiting++
	l.waiting[b.id] = b
	l.bytes += int64(b.size)
}

// Payload reads a batch's payload.
func (l *Log) Payload(b *Batch) ([]byte, error) {
	p := make([]byte, b.size)
	if _, err := b.seg.f.ReadAt(p, b.at); err != nil {
		return nil, fmt.Errorf("outbox: message %d of %s: %w", b.Message.Seq, b.Message.Subject, err)
	}
	return p, nil
}

// Done records that the server has acknowledged a batch. A disk full of batches gets
// free space even if the record does not fit.
func (l *Log) Done(b *Batch) error {
	l.finishBatch(b)
	l.rec = binary.AppendUvarint(beginRecord(l.rec, kindDone), b.id)
	err := l.noteFact(l.rec)
	l.sweepSegments()
	return err
}

// noteFact writes a record, after an error before the next record.
func (l *Log) noteFact(rec []byte) error {
	l.pending = append(l.pending, sealRecord(rec)...)
	return l.WriteAgain()
}

// forget removes the batch from its messages: the server has the batch.
func (b *Batch) forget() {
	for _, e := range b.seen {
		e.Batch = nil
	}
}

func (l *Log) finishBatch(b *Batch) {
	b.forget()
	b.seg.waiting--
	delete(l.waiting, b.id)
	l.bytes -= int64(b.size)
}

// SetInput sets the input of the numbers. Numbers of another input are forgotten.
func (l *Log) SetInput(input string) error {
	if l.Input == input {
		return nil
	}
	if l.Input != "" {
		clear(l.numbers)
	}
	l.Input, l.roll = input, 0
	return l.WriteAgain()
}

// Number returns the last number of a subject; none if the log has none.
func (l *Log) Number(subject string) Number { return l.numbers[subject].Number }

// Forget records that a device has begun a new session.
func (l *Log) Forget(session string) error {
	if !l.Sessions.Forget(session) {
		return nil
	}
	l.rec = appendText(beginRecord(l.rec, kindForget), session)
	return l.noteFact(l.rec)
}

// WriteAgain retries to write the remembered state and facts, after an error.
func (l *Log) WriteAgain() error {
	if s := l.segs[len(l.segs)-1]; s.size >= l.roll {
		if err := l.newSegment(s.n + 1); err != nil {
			return err
		}
	}
	err := l.appendRecord(l.pending)
	if err == nil {
		l.pending = l.pending[:0]
	}
	return err
}

func (l *Log) writeRecord(rec []byte) error {
	if err := l.WriteAgain(); err != nil {
		return err
	}
	return l.appendRecord(sealRecord(rec))
}

// appendRecord appends sealed records. Partly written records are removed, so that the
// next record replaces this part.
func (l *Log) appendRecord(rec []byte) error {
	s := l.segs[len(l.segs)-1]
	if _, err := s.f.WriteAt(rec, s.size); err != nil {
		s.f.Truncate(s.size)
		return fmt.Errorf("outbox: %w", err)
	}
	s.size += int64(len(rec))
	return nil
}

// Bytes returns the size of the waiting batches' payloads.
func (l *Log) Bytes() int64 { return l.bytes }

// Waiting is how many batches the server has not acknowledged.
func (l *Log) Waiting() int { return len(l.waiting) }

// syncSegment syncs written records against a power loss.
func (l *Log) syncSegment() error {
	for _, s := range l.segs {
		if err := durable.Sync(s.f); err != nil {
			return fmt.Errorf("outbox: %w", err)
		}
	}
	if err := durable.SyncFolder(l.dir); err != nil {
		return fmt.Errorf("outbox: %w", err)
	}
	return nil
}

// End records that all numbers are in the log, and syncs the log against a power loss.
func (l *Log) End() error {
	if err := l.writeRecord(beginRecord(l.rec, kindEnd)); err != nil {
		return err
	}
	return l.syncSegment()
}

// Close closes the files.
func (l *Log) Close() {
	for _, s := range l.segs {
		s.f.Close()
	}
	if l.release != nil {
		l.release()
		l.release = nil
	}
}
