package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nuid"

	"github.com/eusn-stream/eusn-stream/internal/dirlock"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/inlog"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Errors of a recording.
var (
	// ErrInUse reports a folder in use by another recorder.
	ErrInUse = dirlock.ErrHeld
	// ErrOtherLog reports that the log is not the log recorded before.
	ErrOtherLog = inlog.ErrOtherLog
	// ErrOther is a folder with a recording of something else.
	ErrOther = errors.New("the folder has something else")
	// ErrDamaged reports an unreadable newest file.
	ErrDamaged = errors.New("the newest file cannot be read")
	// ErrUseless reports a log without any usable message.
	ErrUseless = errors.New("no message can be used")
)

// tooMany unusable messages, without any usable message, end a recording.
const tooMany = 100

// Range selects messages: read from Begin up to Last, recorded from First on.
type Range struct{ Begin, First, Last uint64 }

// Job is one recording.
type Job struct {
	Dir, Name string // the folder, and the job's name, with which file names begin
	Files     Files
	Asked     inlog.Asked
	Machine   *state.Machine
	Takes     func(stream string) bool
	// Plan selects the messages; begun is the first position of an existing recording,
	// otherwise nil.
	Plan func(ctx context.Context, begun *Position) (Range, error)
	// Open opens the source; the source begins after a message. The source returns
	// inlog.ErrDue now and then while there is no message.
	Open func(ctx context.Context, r Range, after inlog.Place) (inlog.Source, error)

	ChunkRows int           // samples per write
	MaxBytes  int64         // of a file, about
	MaxAge    time.Duration // of a file; 0 = any
	Until     time.Time     // messages stored at this time or later are not recorded; zero: no limit. Plan decides the last message once the time has passed

	Begun     func(p Position, again bool)
	Progress  func(Done)                    // counts of all files, including the current file
	Committed func(path string, p Position) // a file is complete
}

// recording is a Job at work.
type recording struct {
	job  *Job
	dir  *folder
	at   Position // of the newest file
	take *taker
	src  inlog.Source
	file File // nil: no sample since the newest file

	after   inlog.Place // the last message taken
	bounded bool        // the source has been opened since job.Until
	gone    uint64      // messages removed before earlier sources could read them
	removed uint64      // of all sources, before the newest file
	since   time.Time   // time of the first message after the newest file
	taken   uint64      // messages since then
}

// Run records until the source ends. When ctx ends, or the source has an error, it
// completes the current file, and returns: the same Job continues from there.
func (j *Job) Run(ctx context.Context) (Position, error) {
	dir, err := openFolder(j.Dir, j.Name)
	if err != nil {
		return Position{}, err
	}
	defer dir.leave()
	r := &recording{job: j, dir: dir}
	again := dir.newest > 0
	if err := r.beginReading(ctx); err != nil {
		r.closeLog()
		return r.at, err
	}
	if j.Begun != nil {
		j.Begun(r.at, again)
	}
	err = r.recordAll(ctx)
	r.closeLog()
	if r.file != nil {
		r.file.Abort()
	}
	return r.at, err
}

// beginReading continues after the newest file, or begins a new recording.
func (r *recording) beginReading(ctx context.Context) error {
	j := r.job
	var part *state.Partition
	var open map[place]int64
	var begun *Position
	if r.dir.newest > 0 {
		path := r.dir.filePath(r.dir.newest)
		meta, err := j.Files.Read(path, nil)
		if err == nil {
			r.at, err = decodePosition(meta)
		}
		if err == nil && r.at.File != r.dir.newest {
			err = fmt.Errorf("its position is that of file %d", r.at.File)
		}
		if err != nil {
			return fmt.Errorf("record: %s: %w: %w", path, ErrDamaged, err)
		}
		if differs := j.Asked.Differs(r.at.Asked); differs != "" {
			return fmt.Errorf("record: %s: %w: %s", j.Dir, ErrOther, differs)
		}
		if part, open, err = decodeState(meta, j.Machine.Shape); err != nil {
			return fmt.Errorf("record: %s: %w: %w", path, ErrDamaged, err)
		}
		begun = &r.at
	}
	span, err := j.Plan(ctx, begun)
	if err != nil {
		return err
	}
	if begun == nil {
		r.at = Position{Version: positionVersion, Recording: nuid.Next(), Asked: j.Asked, Begin: span.Begin, First: span.First}
	}
	r.after = r.at.To
	r.take = newTaker(j.Machine, part, open, j.Takes, r.at.First, r.at.Total.Samples)
	if r.at.Total.Fingerprint != "" {
		if r.take.total, err = wire.ParseDigest(r.at.Total.Fingerprint); err != nil {
			return fmt.Errorf("record: fingerprint %q: %w", r.at.Total.Fingerprint, err)
		}
	}
	return r.openLog(ctx, span)
}

// openLog opens the source after the last used message.
func (r *recording) openLog(ctx context.Context, span Range) (err error) {
	r.bounded = span.Last != inlog.Endless
	r.src, err = r.job.Open(ctx, span, r.after)
	return err
}

func (r *recording) closeLog() {
	if c, ok := r.src.(io.Closer); ok {
		c.Close()
	}
}

// readBounds reopens the source when the end is no longer in the future: the last
// message is then known.
func (r *recording) readBounds(ctx context.Context) error {
	if r.job.Until.IsZero() || r.bounded || time.Now().Before(r.job.Until) {
		return nil
	}
	r.gone += r.src.Removed()
	r.closeLog()
	span, err := r.job.Plan(ctx, &r.at)
	if err != nil {
		return err
	}
	return r.openLog(ctx, span)
}

// recordAll takes message by message.
func (r *recording) recordAll(ctx context.Context) error {
	for {
		m, err := r.src.Next(ctx)
		switch {
		case errors.Is(err, inlog.ErrDue):
			if err := r.readBounds(ctx); err != nil {
				return errors.Join(err, r.commitFile(false))
			}
		case errors.Is(err, io.EOF):
			return r.endFile()
		case err != nil:
			return errors.Join(err, r.commitFile(false))
		case !r.job.Until.IsZero() && m.Message.Stored >= r.job.Until.UnixNano():
			return r.endFile()
		default:
			if err := r.takeMessage(m); err != nil {
				return err
			}
		}
		if !r.isFull() {
			continue
		}
		if err := r.commitFile(false); err != nil {
			return err
		}
	}
}

// isFull reports whether the file must be completed.
func (r *recording) isFull() bool {
	if r.taken == 0 {
		return false
	}
	if r.job.MaxAge > 0 && time.Since(r.since) >= r.job.MaxAge {
		return true
	}
	size := int64(8 * (len(r.take.ends) + len(r.take.silent)))
	if r.file != nil {
		size += r.file.Size()
	}
	return size >= r.job.MaxBytes
}

func (r *recording) takeMessage(m inlog.Message) error {
	if r.taken == 0 {
		r.since = time.Now()
	}
	if err := r.take.takeMessage(m); err != nil {
		return err
	}
	r.taken++
	r.after = inlog.Place{Seq: m.Seq, Stored: m.Message.Stored}
	if err := r.checkUseful(tooMany); err != nil {
		return err
	}
	if r.taken%64 == 0 && r.job.Progress != nil {
		all := r.at.Total
		all.addCounts(&r.take.done)
		r.job.Progress(all)
	}
	if r.take.rows.Len() < r.job.ChunkRows {
		return nil
	}
	return r.writeRows()
}

// checkUseful returns an error if a recording cannot use any of the messages read: a
// retry would give the same result, and nothing is kept.
func (r *recording) checkUseful(messages uint64) error {
	d := &r.take.done
	if d.Unusable < messages || d.Unusable < d.Messages || r.at.File > 0 {
		return nil
	}
	first := r.take.dead[0]
	return fmt.Errorf("record: none of the first %d messages: %w: message %d of key %s: %s", d.Messages, ErrUseless, first.Input, first.Key, first.Reason)
}

// writeRows writes the collected samples.
func (r *recording) writeRows() error {
	rows := &r.take.rows
	if rows.Len() == 0 {
		return nil
	}
	if err := r.createFile(); err != nil {
		return err
	}
	if err := r.file.Write(rows); err != nil {
		return err
	}
	rows.clearRows()
	return nil
}

func (r *recording) createFile() (err error) {
	if r.file == nil {
		r.file, err = r.job.Files.Create(r.dir.filePath(r.at.File + 1))
	}
	return err
}

// endFile completes the last file.
func (r *recording) endFile() error {
	if err := r.checkUseful(1); err != nil {
		return err
	}
	released := r.at.Begin > 1
	if released {
		if err := r.take.releaseWaiting(); err != nil {
			return err
		}
	}
	return r.commitFile(released)
}

// commitFile completes the current file: its samples, and the position after them.
func (r *recording) commitFile(released bool) error {
	t := r.take
	if r.taken == 0 && t.done.Samples == 0 {
		return nil
	}
	if err := r.writeRows(); err != nil {
		return err
	}
	if err := r.createFile(); err != nil {
		return err
	}
	removed := r.gone + r.src.Removed()
	t.done.Removed = removed - r.removed
	t.done.Fingerprint = t.sum.String()
	t.total.Add(t.sum)
	p := r.at
	p.File, p.After, p.To, p.Part, p.Dead, p.Released, p.Waiting = r.at.File+1, r.at.To, r.after, t.done, t.dead, released, t.countWaiting()
	p.Total.addCounts(&t.done)
	p.Total.Fingerprint = t.total.String()
	t.pruneEnded()
	t.part.ForgetChanges()
	meta, err := p.encodeMeta(t.part, t.machine.Shape, t.open)
	if err != nil {
		return err
	}
	if err := encodeNumbers(meta, keyEnds, t.ends); err != nil {
		return err
	}
	if err := encodeNumbers(meta, keySilent, t.silent); err != nil {
		return err
	}
	file := r.file
	r.file = nil
	if err := file.Close(meta); err != nil {
		return err
	}
	r.at, r.removed, r.taken = p, removed, 0
	t.done, t.dead, t.sum = Done{}, nil, wire.Digest{}
	t.ends, t.silent = t.ends[:0], t.silent[:0]
	if r.job.Committed != nil {
		r.job.Committed(r.dir.filePath(p.File), p)
	}
	return nil
}

// encodeNumbers adds a list of samples.
func encodeNumbers(meta map[string]string, key string, list []int64) error {
	if len(list) == 0 {
		return nil
	}
	text, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	meta[key] = string(text)
	return nil
}

// decodeNumbers reads a list of samples, empty if missing.
func decodeNumbers(meta map[string]string, key string) (list []int64, err error) {
	if text := meta[key]; text != "" {
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	return list, nil
}
