package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/codec/formats"
	"github.com/eusn-stream/eusn-stream/internal/dirlock"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/inlog"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/record"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/track"
)

// What keeps a recording from its work.
var (
	// ErrRecordInUse is a folder that another recorder writes to.
	ErrRecordInUse = dirlock.ErrHeld
	// ErrRecordOther is a folder with a recording of something else.
	ErrRecordOther = record.ErrOther
	// ErrRecordDamaged is a newest file that cannot be read.
	ErrRecordDamaged = record.ErrDamaged
	// ErrRecordUseless is a log of which no message can be used.
	ErrRecordUseless = record.ErrUseless
	// ErrRecordDiffers is a recording that is not what the log says.
	ErrRecordDiffers = record.ErrDiffers
	// ErrRecordLog is a log that is not the one that was recorded before.
	ErrRecordLog = inlog.ErrOtherLog
)

// Parts of a recording, and who reads and writes its files.
type (
	RecordRows     = record.Rows
	RecordFile     = record.File
	RecordFiles    = record.Files
	RecordDone     = record.Done
	RecordPosition = record.Position
	RecordVerified = record.Verified
)

// RecordKeys are the keys of the metadata that a recording's file has.
var RecordKeys = record.Keys

// Record says what of a job's log is to be recorded, and where to.
type Record struct {
	Dir   string // a folder; a recording that is there continues
	Files RecordFiles

	// What was stored from From on (zero: from the first message). Messages of LeadIn
	// before From are read, too, so that it is known which are repeats; negative: all.
	// FromText is From in words: a recording that was begun with others is not continued.
	From     time.Time
	LeadIn   time.Duration
	FromText string
	To       time.Time // until before then, which may be in the future
	Follow   bool      // where To is zero: for ever, and not until now

	Streams string // which streams, in words that Takes understands; empty = all
	Takes   func(words string) (func(stream string) bool, error)

	MaxBytes int64         // of a file, about; 0 = DefaultRecordBytes
	MaxAge   time.Duration // of a file; 0 = any
	Rows     int           // that are written at a time

	Begun     func(p RecordPosition, again bool) // optional, as are these
	Progress  func(RecordDone)
	Committed func(path string, p RecordPosition)
}

// DefaultRecordBytes is how large a file of a recording becomes.
const DefaultRecordBytes = 256 << 20

// lookAround is how often a recorder looks at the clock while there is no message.
const lookAround = 200 * time.Millisecond

// Record writes a job's input to files, as the stage uses it: see package
// internal/pipeline/record. Config and Model are those of a stage, of which it
// needs settings, channels and policy; messages are read as the job reads them. The
// job stays as it is: nothing is published. When ctx ends, or the computer stops,
// call it again: each sample is recorded once.
func (s *Stage) Record(ctx context.Context, o Record) (RecordPosition, error) {
	r, err := s.recorder(ctx, o)
	if err != nil {
		return RecordPosition{}, err
	}
	defer r.close()
	takes, err := o.Takes(o.Streams)
	if err != nil {
		return RecordPosition{}, err
	}
	machine, err := r.machine()
	if err != nil {
		return RecordPosition{}, err
	}
	tick := time.NewTicker(lookAround)
	defer tick.Stop()
	job := record.Job{
		Dir: o.Dir, Name: r.b.job.Name, Files: o.Files, Asked: r.asked(), Machine: machine, Takes: takes,
		Plan: r.plan, MaxBytes: cmp.Or(o.MaxBytes, DefaultRecordBytes), MaxAge: o.MaxAge, ChunkRows: o.Rows, Until: o.To,
		Open: func(ctx context.Context, span record.Range, after inlog.Place) (record.Source, error) {
			return r.open(ctx, span, after, tick.C)
		},
		Begun: o.Begun, Progress: o.Progress, Committed: o.Committed,
	}
	return job.Run(ctx)
}

// VerifyRecording computes the fingerprints of a recording's files again: of the
// files, and of the log as far as it has their messages.
func (s *Stage) VerifyRecording(ctx context.Context, o Record, progress func(file, of int)) (RecordVerified, error) {
	r, err := s.recorder(ctx, o)
	if err != nil {
		return RecordVerified{}, err
	}
	defer r.close()
	info, err := r.b.in.Info(ctx, 0)
	if err != nil {
		return RecordVerified{}, err
	}
	check := record.Check{
		Dir: o.Dir, Name: r.b.job.Name, Files: o.Files, Asked: r.asked(), Machine: r.machine, Takes: o.Takes, LogFirst: info.State.FirstSeq,
		Open: func(ctx context.Context, span record.Range, after inlog.Place) (record.Source, error) {
			return r.open(ctx, span, after, nil)
		},
		Progress: progress,
	}
	return check.Run(ctx)
}

// RecordingNeeds is the first message of a job's input that a recording of it does
// not have yet. It may be of any job that reads this input.
func RecordingNeeds(ctx context.Context, js jetstream.JetStream, job, dir string, files RecordFiles) (uint64, error) {
	j, err := store.Open(ctx, js, job)
	if err != nil {
		return 0, err
	}
	at, err := record.Reached(dir, files)
	if err != nil {
		return 0, err
	}
	if own := createdText(j); !strings.HasSuffix(at.Asked.Input, own) {
		return 0, fmt.Errorf("pipeline: %s is a recording of %s, not of the input of job %q (%s): %w", dir, at.Asked.Input, job, own, ErrRecordOther)
	}
	return at.To.Seq + 1, nil
}

// createdText is how a recording names the input of a job.
func createdText(j *store.Job) string {
	return "created " + wire.CreatedText(j.In.CachedInfo().Created)
}

// recorder is a Record at work.
type recorder struct {
	o  Record
	b  *backfilling // the job, found as a backfill finds it
	nc *nats.Conn
}

func (s *Stage) recorder(ctx context.Context, o Record) (*recorder, error) {
	alone := *s
	alone.Config.Partitions, alone.Config.Shards = 1, 1
	run, err := alone.prepare()
	if err != nil {
		return nil, err
	}
	nc, err := s.Dial("record")
	if err != nil {
		return nil, err
	}
	r := &recorder{o: o, nc: nc, b: &backfilling{run: run, o: Backfill{From: o.From, To: o.To, LeadIn: o.LeadIn}}}
	if err := r.b.find(ctx, nc); err != nil {
		nc.Close()
		return nil, err
	}
	return r, nil
}

func (r *recorder) close() { r.nc.Close() }

// machine is the stage's, without what only a network needs.
func (r *recorder) machine() (*state.Machine, error) {
	c, m := r.b.run.cfg, r.b.run.stage.Model
	d, err := formats.New(c.Input, codec.Schema{Channels: m.Channels, NonFinite: c.NonFinite})
	if err != nil {
		return nil, fmt.Errorf("pipeline: %w", err)
	}
	policy, n := state.OneState(m.Policy), r.b.job.Partitions
	return state.NewMachine(state.Rules{
		Rules: track.Rules{Policy: policy, Channels: len(m.Channels), RateTolerance: -1}, Shape: state.ShapeWithout(policy, len(m.Channels)),
		MaxStreams: c.MaxStreams * n, Reorder: max(0, c.Reorder), ReorderBytes: c.ReorderBytes * n, MaxKey: r.b.job.Pattern.MaxKey(), Keys: c.allowedKeys(), Events: c.events(), OneReadout: true,
	}, d), nil
}

// asked is what the samples depend on.
func (r *recorder) asked() record.Asked {
	c, m := r.b.run.cfg, r.b.run.stage.Model
	policy := state.OneState(m.Policy)
	return record.Asked{
		Input: fmt.Sprintf("job %s, %s", r.b.job.Name, createdText(r.b.job)),
		From:  r.o.FromText, Streams: r.o.Streams,
		Settings: fmt.Sprintf("channels %s, policy %s %d %d, input %s, non_finite %s, reorder %d, reorder_bytes %d, max_streams %d",
			strings.Join(m.Channels, " "), policy.Kind, policy.Length, policy.Gap, c.Input.Text(), c.NonFinite, c.Reorder, c.ReorderBytes, c.MaxStreams),
	}
}

// plan finds out which messages are meant.
func (r *recorder) plan(ctx context.Context, begun *record.Position) (record.Range, error) {
	info, err := r.b.in.Info(ctx, 0)
	if err != nil {
		return record.Range{}, err
	}
	log, name := info.State, info.Config.Name
	since := func(t time.Time) uint64 {
		seq := uint64(0)
		if err == nil {
			seq, err = store.FirstSince(ctx, r.b.job.JS, log, name, t)
		}
		return seq
	}
	span := record.Range{Begin: max(log.FirstSeq, 1), First: max(log.FirstSeq, 1), Last: log.LastSeq}
	switch {
	case begun != nil:
		span.Begin, span.First = begun.Begin, begun.First
	case !r.o.From.IsZero():
		if r.o.LeadIn >= 0 {
			span.Begin = since(r.o.From.Add(-r.o.LeadIn))
		}
		span.First = since(r.o.From)
	}
	switch {
	case r.o.Follow && r.o.To.IsZero(), r.o.To.After(time.Now()):
		span.Last = inlog.Endless
	case !r.o.To.IsZero():
		span.Last = since(r.o.To) - 1
	}
	if err == nil && begun == nil && !r.o.From.IsZero() && r.o.From.Before(log.FirstTime) && log.FirstSeq > 1 {
		at := func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
		err = fmt.Errorf("pipeline: %s begins with message %d, stored %s; what was stored before, and since %s, was removed (input.max_age, input.max_bytes, or by hand): %w",
			name, log.FirstSeq, at(log.FirstTime), at(r.o.From), ErrBackfillRange)
	}
	return span, err
}

// open makes the source of messages.
func (r *recorder) open(ctx context.Context, span record.Range, after inlog.Place, due <-chan time.Time) (record.Source, error) {
	if after.Seq >= span.Last || span.Begin > span.Last {
		return nothing{}, nil
	}
	l := &inlog.Log{Input: r.b.in, JS: r.b.job.JS, Log: r.b.run.log, Due: due}
	return l, l.Open(ctx, after, span.Begin, span.Last)
}

// nothing is a log without another message.
type nothing struct{}

func (nothing) Next(context.Context) (inlog.Message, error) { return inlog.Message{}, io.EOF }
func (nothing) Removed() uint64                             { return 0 }
