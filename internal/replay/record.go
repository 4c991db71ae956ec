package replay

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/formats"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/inlog"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/record"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/track"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// Record selects the part of a job's log to record, and the output.
type Record struct {
	Dir   string // a folder; an existing recording continues
	Files record.Files

	// From selects messages by their storage time (zero: from the first message). Messages of LeadIn before From are
	// also read, to detect repeats; negative: all. FromText is From in words: a recording that was begun with other
	// words is not continued.
	From     time.Time
	LeadIn   time.Duration
	FromText string
	To       time.Time // until before To, which may be in the future
	Follow   bool      // if To is zero: continue for ever, not only until now

	Streams string // streams, in the words of Takes; empty = all
	Takes   func(words string) (func(stream string) bool, error)

	MaxBytes int64         // of a file, about; 0 = DefaultRecordBytes
	MaxAge   time.Duration // of a file; 0 = any
	Rows     int           // that are written at a time

	Begun     func(p record.Position, again bool) // optional, like the next two
	Progress  func(record.Done)
	Committed func(path string, p record.Position)
}

// DefaultRecordBytes is how large a file of a recording becomes.
const DefaultRecordBytes = 256 << 20

// lookAround is the interval of a recorder's looks at the clock without messages.
const lookAround = 200 * time.Millisecond

// WriteRecording writes a job's input to files, as the stage uses the input: see package internal/pipeline/record,
// which also defines the errors. The job needs settings, channels and policy; messages are read as the job reads
// them. The job is not changed: nothing is published. When ctx ends, or the computer stops, repeat the call: each
// sample is recorded once.
func WriteRecording(ctx context.Context, job *pipeline.Job, o Record) (record.Position, error) {
	r, err := newRecorder(ctx, job, o)
	if err != nil {
		return record.Position{}, err
	}
	defer r.end()
	takes, err := o.Takes(o.Streams)
	if err != nil {
		return record.Position{}, err
	}
	machine, err := r.machine()
	if err != nil {
		return record.Position{}, err
	}
	tick := time.NewTicker(lookAround)
	defer tick.Stop()
	work := record.Job{
		Dir: o.Dir, Name: r.stored.Name, Files: o.Files, Asked: r.asked(), Machine: machine, Takes: takes,
		Plan: r.plan, MaxBytes: cmp.Or(o.MaxBytes, DefaultRecordBytes), MaxAge: o.MaxAge, ChunkRows: o.Rows, Until: o.To,
		Open: func(ctx context.Context, msgs record.Range, after inlog.Place) (inlog.Source, error) {
			return r.open(ctx, msgs, after, tick.C)
		},
		Begun: o.Begun, Progress: o.Progress, Committed: o.Committed,
	}
	return work.Run(ctx)
}

// VerifyRecording recomputes the fingerprints of a recording's files: from the files, and from the log as far as the
// log has their messages.
func VerifyRecording(ctx context.Context, job *pipeline.Job, o Record, progress func(file, of int)) (record.Verified, error) {
	r, err := newRecorder(ctx, job, o)
	if err != nil {
		return record.Verified{}, err
	}
	defer r.end()
	info, err := r.in.Info(ctx, 0)
	if err != nil {
		return record.Verified{}, err
	}
	check := record.Check{
		Dir: o.Dir, Name: r.stored.Name, Files: o.Files, Asked: r.asked(), Machine: r.machine, Takes: o.Takes, LogFirst: info.State.FirstSeq,
		Open: func(ctx context.Context, msgs record.Range, after inlog.Place) (inlog.Source, error) {
			return r.open(ctx, msgs, after, nil)
		},
		Progress: progress,
	}
	return check.Run(ctx)
}

// RecordingNeeds returns the first message of a job's input that is missing in a recording. The recording may be of
// any job with this input.
func RecordingNeeds(ctx context.Context, js jetstream.JetStream, job, dir string, files record.Files) (uint64, error) {
	j, err := store.Open(ctx, js, job)
	if err != nil {
		return 0, err
	}
	at, err := record.ReachedPosition(dir, files)
	if err != nil {
		return 0, err
	}
	if own := createdText(j); !strings.HasSuffix(at.Asked.Input, own) {
		return 0, fmt.Errorf("pipeline: %s is a recording of %s, not of the input of job %q (%s): %w", dir, at.Asked.Input, job, own, record.ErrOther)
	}
	return at.To.Seq + 1, nil
}

// createdText is how a recording names the input of a job.
func createdText(j *store.Job) string {
	return "created " + wire.CreatedText(j.In.CachedInfo().Created)
}

// recorder is a Record at work.
type recorder struct {
	*jobLog
	o   Record
	end func() // closes the connection
}

func newRecorder(ctx context.Context, job *pipeline.Job, o Record) (*recorder, error) {
	l, end, err := dial(ctx, job, "record")
	return &recorder{l, o, end}, err
}

// machine is the stage's machine, without the parts for a network.
func (r *recorder) machine() (*state.Machine, error) {
	c, m := r.Config, r.Model
	d, err := formats.New(c.Input, codec.Schema{Channels: m.Channels, NonFinite: c.NonFinite})
	if err != nil {
		return nil, fmt.Errorf("pipeline: %w", err)
	}
	policy, n := state.OneState(m.Policy), r.stored.Partitions
	keys := r.shardConfig()
	return state.NewMachine(state.Rules{
		Rules: track.Rules{Policy: policy, Channels: len(m.Channels), RateTolerance: -1}, Shape: state.ShapeWithout(policy, len(m.Channels)),
		MaxStreams: c.MaxStreams * n, Reorder: max(0, c.Reorder), ReorderBytes: c.ReorderBytes * n, MaxKey: keys.MaxKey, Keys: keys.Keys, Events: keys.Events, OneReadout: true,
	}, d), nil
}

// asked returns the settings that samples depend on.
func (r *recorder) asked() inlog.Asked {
	c, m := r.Config, r.Model
	policy := state.OneState(m.Policy)
	return inlog.Asked{
		Input: fmt.Sprintf("job %s, %s", r.stored.Name, createdText(r.stored)),
		From:  r.o.FromText, Streams: r.o.Streams,
		Settings: fmt.Sprintf("channels %s, policy %s %d %d, input %s, non_finite %s, reorder %d, reorder_bytes %d, max_streams %d",
			strings.Join(m.Channels, " "), policy.Kind, policy.Length, policy.Gap, c.Input.Text(), c.NonFinite, c.Reorder, c.ReorderBytes, c.MaxStreams),
	}
}

// plan finds the range of messages.
func (r *recorder) plan(ctx context.Context, begun *record.Position) (record.Range, error) {
	info, err := r.in.Info(ctx, 0)
	if err != nil {
		return record.Range{}, err
	}
	want := span{To: r.o.To, LeadIn: r.o.LeadIn}
	if begun == nil {
		want.From = r.o.From
	}
	var msgs record.Range
	if msgs.Begin, msgs.First, msgs.Last, err = want.messages(ctx, r.jobLog, info); err != nil {
		return msgs, err
	}
	msgs.Begin, msgs.First = max(msgs.Begin, 1), max(msgs.First, 1)
	if begun != nil {
		msgs.Begin, msgs.First = begun.Begin, begun.First
	}
	if r.o.Follow && r.o.To.IsZero() || r.o.To.After(time.Now()) {
		msgs.Last = inlog.Endless
	}
	return msgs, want.checkFrom(info)
}

// open makes the source of messages.
func (r *recorder) open(ctx context.Context, msgs record.Range, after inlog.Place, due <-chan time.Time) (inlog.Source, error) {
	if after.Seq >= msgs.Last || msgs.Begin > msgs.Last {
		return nothing{}, nil
	}
	l := r.log("")
	l.Due = due
	return l, l.Open(ctx, after, msgs.Begin, msgs.Last)
}

// nothing is a log without another message.
type nothing struct{}

func (nothing) Next(context.Context) (inlog.Message, error) { return inlog.Message{}, io.EOF }
func (nothing) Removed() uint64                             { return 0 }
