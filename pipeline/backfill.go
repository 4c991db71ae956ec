package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/codec/formats"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/backfill"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/inlog"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// What keeps a backfill from its work.
var (
	// ErrBackfillExists is a file of predictions that is there already.
	ErrBackfillExists = backfill.ErrExists
	// ErrBackfillInUse is a file that another backfill writes.
	ErrBackfillInUse = backfill.ErrInUse
	// ErrBackfillOther is a file that a backfill of something else has begun.
	ErrBackfillOther = backfill.ErrOther
	// ErrBackfillRemains is what is left of a backfill that cannot be continued.
	ErrBackfillRemains = backfill.ErrRemains
	// ErrBackfillUnusable is input of which no message can be used; nothing is kept.
	ErrBackfillUnusable = backfill.ErrUnusable
	// ErrBackfillRange is a time that the job's log does not have.
	ErrBackfillRange = errors.New("not in the log")
)

// Backfill says which old messages are to be predicted, and where to.
type Backfill struct {
	// Out is the file of predictions. While it grows it is Out.part, and
	// Out.position says how far it has come; Backfill with the same Out continues
	// from there.
	Out  string
	Head []byte // how the file begins
	Line func(dst []byte, p BackfillPrediction) ([]byte, error)

	// Of the job's log: what was stored from From (zero: from its first message)
	// until before To (zero: until now). Messages of LeadIn before From are read,
	// too, so that the states are right; negative: all.
	From, To time.Time
	LeadIn   time.Duration
	// Messages are read in the place of the log, where it is given, and no server
	// is asked. It is called once.
	Messages func() (BackfillMessages, error)
	// Input and Range are what is asked for, in words: one that was begun with
	// other words is not continued. "The last hour" is another time a minute later,
	// and the same backfill.
	Input, Range string

	Rate     float64            // samples per second; 0 = as fast as possible
	Progress func(BackfillDone) // optional
	Begun    func(BackfillPlan) // optional: before the first message is computed

	every time.Duration // between positions; 0 = positionEvery
}

// BackfillMessages are messages in Arrow that come from anywhere: io.EOF ends them.
type BackfillMessages interface {
	Next() (key string, header map[string][]string, data []byte, err error)
}

// BackfillPrediction is a prediction, and the message of the log that made it: its
// number, and when it was stored; 0 and the zero time where there is no log.
type BackfillPrediction struct {
	codec.Prediction
	Labels []string
	Input  uint64
	Stored time.Time
}

// BackfillPlan is what is about to be computed.
type BackfillPlan struct {
	Again    bool   // it continues with what was begun before
	Begin    uint64 // first message of the log that is read; 0 = no log
	First    uint64 // first one whose predictions are asked for
	Last     uint64 // the last one
	JobModel bool   // the model is the job's
	Done     BackfillDone
}

// BackfillDone is what was done so far, also before a kill.
type BackfillDone struct {
	backfill.Done
	All uint64 `json:"-"` // messages there are to read; 0 = not known
}

const positionEvery = time.Second

// Backfill predicts old messages on an engine of its own, as the stage does, with
// the stage's code. The job on the server, if there is one, stays as it is:
// nothing is published. Config, Model and NewEngine are those of a stage; of a job,
// messages are read as the job reads them, whatever Config.Input is. When ctx ends,
// or the computer stops, call it again: each prediction is in the file once.
func (s *Stage) Backfill(ctx context.Context, o Backfill) (BackfillDone, error) {
	alone := *s
	alone.Config.Partitions, alone.Config.Shards = 1, 1
	if o.Messages != nil {
		alone.Config.Input = formats.Input{Format: formats.Arrow}
		alone.Dial = func(string) (*nats.Conn, error) { return nil, errors.New("pipeline: no server is asked") }
	}
	r, err := alone.prepare()
	if err != nil {
		return BackfillDone{}, err
	}
	b := &backfilling{run: r, o: o}
	if o.Messages == nil {
		nc, err := s.Dial("backfill")
		if err != nil {
			return BackfillDone{}, err
		}
		defer nc.Close()
		if err := b.find(ctx, nc); err != nil {
			return BackfillDone{}, err
		}
	}
	sh, err := b.shard()
	if err != nil {
		return BackfillDone{}, err
	}
	defer sh.Close()
	if b.job != nil {
		if b.sameModel, err = b.isJobs(sh); err != nil {
			return BackfillDone{}, err
		}
	}
	at, err := b.work(sh).Run(ctx)
	return b.done(at), err
}

// backfilling is a Backfill at work.
type backfilling struct {
	run       *run
	o         Backfill
	job       *store.Job // nil: there is none
	snaps     *store.Snapshots
	in        *store.Input
	entry     wire.Entry
	sameModel bool
}

// find opens the job whose log is to be read, and takes over how it reads.
func (b *backfilling) find(ctx context.Context, nc *nats.Conn) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("pipeline: JetStream: %w", err)
	}
	return b.of(ctx, js, store.Follow(nc))
}

// of is find, over a connection that link follows.
func (b *backfilling) of(ctx context.Context, js jetstream.JetStream, link *store.Link) (err error) {
	if b.job, err = store.Open(ctx, js, b.run.cfg.Job); err != nil {
		return err
	}
	b.in = b.job.Input(link)
	b.run.cfg.Shared.Job = b.job.Source.Job
	if b.entry, _, err = store.ReadEntry(ctx, b.job.Out, b.job.Name); err != nil {
		return err
	}
	b.run.cfg.Input, err = inputOf(ctx, b.job.Out, b.job.Name, b.run.stage.Model, b.run.self.readout, b.run.cfg.Input)
	return err
}

// shard makes the one that computes.
func (b *backfilling) shard() (*shard.Shard, error) {
	c := b.run.cfg.shard()
	c.MaxSlots, c.Idle, c.Forget = mostSlots, 0, 0 // nothing is stored apart; end events come from the log
	c.MaxKey = 0
	if b.job != nil {
		c.MaxKey = b.job.Pattern.MaxKey()
		c.MaxStreams, c.ReorderBytes = c.MaxStreams*b.job.Partitions, c.ReorderBytes*b.job.Partitions
	} else {
		c.MaxStreams *= DefaultPartitions
	}
	// What is odd in old data is in the predictions' flags and in BackfillDone.
	sh, err := shard.New(c, b.run.stage.Model, b.run.self.readout, b.run.stage.NewEngine, b.run.counters, slog.New(slog.DiscardHandler))
	if err == nil {
		sh.Machine.OneReadout = true // the one that was asked for, whatever was promoted in the log
	}
	return sh, err
}

// isJobs reports whether the model is the one that the job runs.
func (b *backfilling) isJobs(sh *shard.Shard) (bool, error) {
	own := sh.Machine.Shape.Identity()
	var err error
	own.Readout, err = readoutOf(b.run.stage.Model, b.run.self.readout, b.run.cfg.Input)
	return own.Differs(b.entry.Identity) == "", err
}

func (b *backfilling) work(sh *shard.Shard) *backfill.Job {
	return &backfill.Job{
		Path: b.o.Out, Head: b.o.Head, Line: b.line, Asked: b.asked(), Shard: sh, Rate: b.o.Rate, Every: cmp.Or(b.o.every, positionEvery),
		Plan: b.plan, Open: b.open,
		Progress: func(at backfill.Position) {
			if b.o.Progress != nil {
				b.o.Progress(b.done(at))
			}
		},
		Begun: func(at backfill.Position, again bool) {
			if b.o.Begun != nil {
				b.o.Begun(BackfillPlan{Again: again, Begin: at.Range.Begin, First: at.Range.First, Last: at.Range.Last, JobModel: b.sameModel, Done: b.done(at)})
			}
		},
	}
}

// asked is what the predictions depend on.
func (b *backfilling) asked() backfill.Asked {
	input := b.o.Input
	if b.job != nil {
		input = fmt.Sprintf("the log of job %q, created %s", b.job.Name, wire.CreatedText(b.job.In.CachedInfo().Created))
	}
	c := b.run.cfg
	return backfill.Asked{
		Input: input, Range: b.o.Range,
		Model: fmt.Sprintf("the model with sha256 %.12s and readout %q", b.run.self.meta.SHA256, b.run.self.readout.Name),
		Settings: fmt.Sprintf("input %s, non_finite %s, reorder %d, reorder_bytes %d, max_streams %d, rate_tolerance %d",
			c.Input.Text(), c.NonFinite, c.Reorder, c.ReorderBytes, c.MaxStreams, c.RateTolerance),
	}
}

func (b *backfilling) line(dst []byte, p *codec.Prediction, in uint64, stored int64) ([]byte, error) {
	line := BackfillPrediction{Prediction: *p, Labels: b.run.self.meta.Labels}
	if b.job != nil {
		line.Input, line.Stored = in, time.Unix(0, stored)
	}
	return b.o.Line(dst, line)
}

func (b *backfilling) done(at backfill.Position) BackfillDone {
	d := BackfillDone{Done: at.Done}
	if b.job != nil && at.Range.Last > 0 {
		d.All = at.Range.Last + 1 - at.Range.Begin
	}
	return d
}

// plan finds out which messages of the log are meant.
func (b *backfilling) plan(ctx context.Context) (r backfill.Range, err error) {
	if b.job == nil {
		return r, nil
	}
	info, err := b.in.Info(ctx, 0)
	if err != nil {
		return r, err
	}
	log, name := info.State, info.Config.Name
	since := func(t time.Time) uint64 {
		seq := uint64(0)
		if err == nil {
			seq, err = store.FirstSince(ctx, b.job.JS, log, name, t)
		}
		return seq
	}
	r = backfill.Range{Begin: log.FirstSeq, First: log.FirstSeq, Last: log.LastSeq}
	if !b.o.From.IsZero() {
		if b.o.LeadIn >= 0 {
			r.Begin = since(b.o.From.Add(-b.o.LeadIn))
		}
		r.First = since(b.o.From)
	}
	if !b.o.To.IsZero() {
		r.Last = since(b.o.To) - 1
	}
	if err != nil {
		return r, err
	}
	at := func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
	switch {
	case log.Msgs == 0:
		return r, fmt.Errorf("pipeline: %s holds no message: %w", name, ErrBackfillRange)
	case !b.o.From.IsZero() && b.o.From.Before(log.FirstTime) && log.FirstSeq > 1:
		return r, fmt.Errorf("pipeline: %s begins with message %d, stored %s; what was stored before, and since %s, was removed (input.max_age, input.max_bytes, or by hand): %w",
			name, log.FirstSeq, at(log.FirstTime), at(b.o.From), ErrBackfillRange)
	case r.First > r.Last:
		until := "now"
		if !b.o.To.IsZero() {
			until = at(b.o.To)
		}
		return r, fmt.Errorf("pipeline: no message was stored from %s until %s: %s holds messages from %s to %s: %w", at(b.o.From), until, name, at(log.FirstTime), at(log.LastTime), ErrBackfillRange)
	case r.Begin > 1 && b.run.stage.Model.Policy.Kind == reservoir.Endless:
		return r, fmt.Errorf("pipeline: under the policy endless a prediction depends on all samples since its stream began, and the reading would begin with message %d of the log: every prediction would be of something else than the job's: %w", r.Begin, ErrBackfillRange)
	}
	return r, nil
}

// open makes the source of messages.
func (b *backfilling) open(ctx context.Context, r backfill.Range, after inlog.Place) (backfill.Source, error) {
	if b.job == nil {
		m, err := b.o.Messages()
		if err != nil {
			return nil, err
		}
		return &numbered{messages: m, skip: after.Seq}, nil
	}
	l := &inlog.Log{Input: b.in, JS: b.job.JS, Log: b.run.log}
	return l, l.Open(ctx, after, r.Begin, r.Last)
}

// numbered are messages that are in no log: they get numbers from 1.
type numbered struct {
	messages BackfillMessages
	skip, at uint64
}

func (n *numbered) Removed() uint64 { return 0 }

func (n *numbered) Next(ctx context.Context) (inlog.Message, error) {
	for {
		if err := ctx.Err(); err != nil {
			return inlog.Message{}, err
		}
		key, header, data, err := n.messages.Next()
		if err != nil {
			return inlog.Message{}, err
		}
		if n.at++; n.at > n.skip {
			return inlog.Message{Message: state.Message{Seq: n.at, Key: key, Header: header, Data: data}}, nil
		}
	}
}
