package replay

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/formats"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/inlog"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Backfill selects the old messages to predict, and the output.
type Backfill struct {
	// Out is the file of predictions. The growing file is Out.part, and Out.position holds the progress; Backfill
	// with the same Out continues from this position.
	Out  string
	Head []byte // how the file begins
	Line func(dst []byte, p BackfillPrediction) ([]byte, error)

	// From and To select messages of the job's log by their storage time: from From (zero: the first message) until
	// before To (zero: now). Messages of LeadIn before From are also read, so that the states are right; negative:
	// all.
	From, To time.Time
	LeadIn   time.Duration
	// Messages, if set, replaces the log; no server is contacted. Messages is called once.
	Messages func() (BackfillMessages, error)
	// Input and Range describe the request in words: a backfill with other words is not continued. "The last hour" is
	// another time a minute later, and the same backfill.
	Input, Range string

	Rate     float64            // samples per second; 0 = as fast as possible
	Progress func(BackfillDone) // optional
	Begun    func(BackfillPlan) // optional: before the first message is computed

	every time.Duration // between positions; 0 = positionEvery
}

// BackfillMessages are Arrow messages of any origin: io.EOF ends the messages.
type BackfillMessages interface {
	Next() (key string, header map[string][]string, data []byte, err error)
}

// BackfillPrediction is a prediction, and the number and storage time of the log message that made the prediction; 0
// and the zero time without a log.
type BackfillPrediction struct {
	codec.Prediction
	Labels []string
	Input  uint64
	Stored time.Time
}

// BackfillPlan is the work ahead.
type BackfillPlan struct {
	Again    bool   // an earlier backfill is continued
	Begin    uint64 // first log message to read; 0 = no log
	First    uint64 // first message with requested predictions
	Last     uint64 // the last one
	JobModel bool   // the model is the job's
	Done     BackfillDone
}

// BackfillDone is the work done so far, including work before a kill.
type BackfillDone struct {
	Messages    uint64 `json:"messages"` // messages with requested predictions
	Before      uint64 `json:"before"`   // messages read only for the states
	Samples     uint64 `json:"samples"`  // in all messages read
	Removed     uint64 `json:"removed"`  // that were gone from the log before they could be read
	Unusable    uint64 `json:"unusable"`
	Reason      string `json:"reason,omitempty"` // of the first that was
	Predictions uint64 `json:"predictions"`
	All         uint64 `json:"-"` // messages to read; 0 = not known
}

const positionEvery = time.Second

// WriteBackfill predicts old messages on an engine of its own, with the stage's code. A job on the server is not
// changed: nothing is published. Messages of a job are read as the job reads them, whatever Config.Input is. When ctx
// ends, or the computer stops, repeat the call: each prediction is in the file once.
func WriteBackfill(ctx context.Context, job *pipeline.Job, o Backfill) (BackfillDone, error) {
	b := &backfilling{o: o}
	var err error
	if o.Messages == nil {
		var end func()
		if b.jobLog, end, err = dial(ctx, job, "backfill"); err != nil {
			return BackfillDone{}, err
		}
		defer end()
	} else {
		arrow := *job
		arrow.Config.Input = formats.Input{Format: formats.Arrow}
		if b.jobLog, err = prepare(&arrow); err != nil {
			return BackfillDone{}, err
		}
	}
	sh, err := b.newWholeShard()
	if err != nil {
		return BackfillDone{}, err
	}
	defer sh.Close()
	if b.stored != nil {
		if b.sameModel, err = b.isJobs(sh); err != nil {
			return BackfillDone{}, err
		}
	}
	at, err := b.work(sh).Run(ctx)
	return b.done(at), err
}

// backfilling is a Backfill at work.
type backfilling struct {
	*jobLog
	o         Backfill
	sameModel bool
}

func (b *backfilling) work(sh *shard.Shard) *backfillJob {
	return &backfillJob{
		Path: b.o.Out, Head: b.o.Head, Line: b.line, Asked: b.asked(), Shard: sh, Rate: b.o.Rate, Every: cmp.Or(b.o.every, positionEvery),
		Plan: b.plan, Open: b.open,
		Progress: func(at backfillPosition) {
			if b.o.Progress != nil {
				b.o.Progress(b.done(at))
			}
		},
		Begun: func(at backfillPosition, again bool) {
			if b.o.Begun != nil {
				b.o.Begun(BackfillPlan{Again: again, Begin: at.Range.Begin, First: at.Range.First, Last: at.Range.Last, JobModel: b.sameModel, Done: b.done(at)})
			}
		},
	}
}

// asked returns the inputs and settings that predictions depend on.
func (b *backfilling) asked() inlog.Asked {
	input := b.o.Input
	if b.stored != nil {
		input = fmt.Sprintf("the log of job %q, created %s", b.stored.Name, wire.CreatedText(b.stored.In.CachedInfo().Created))
	}
	c := b.Config
	linear, meta := b.Predicting()
	return inlog.Asked{
		Input: input, Range: b.o.Range,
		Model: fmt.Sprintf("the model with sha256 %.12s and readout %q", meta.SHA256, linear.Name),
		Settings: fmt.Sprintf("input %s, non_finite %s, reorder %d, reorder_bytes %d, max_streams %d, rate_tolerance %d",
			c.Input.Text(), c.NonFinite, c.Reorder, c.ReorderBytes, c.MaxStreams, c.RateTolerance),
	}
}

func (b *backfilling) line(dst []byte, p *codec.Prediction, in uint64, stored int64) ([]byte, error) {
	_, meta := b.Predicting()
	line := BackfillPrediction{Prediction: *p, Labels: meta.Labels}
	if b.stored != nil {
		line.Input, line.Stored = in, time.Unix(0, stored)
	}
	return b.o.Line(dst, line)
}

func (b *backfilling) done(at backfillPosition) BackfillDone {
	d := at.Done
	if b.stored != nil && at.Range.Last > 0 {
		d.All = at.Range.Last + 1 - at.Range.Begin
	}
	return d
}

// plan finds the range of log messages.
func (b *backfilling) plan(ctx context.Context) (r backfillRange, err error) {
	if b.stored == nil {
		return r, nil
	}
	info, err := b.in.Info(ctx, 0)
	if err != nil {
		return r, err
	}
	log, name := info.State, info.Config.Name
	want := span{From: b.o.From, To: b.o.To, LeadIn: b.o.LeadIn}
	if r.Begin, r.First, r.Last, err = want.messages(ctx, b.jobLog, info); err != nil {
		return r, err
	}
	if log.Msgs == 0 {
		return r, fmt.Errorf("pipeline: %s holds no message: %w", name, ErrRange)
	}
	if err := want.checkFrom(info); err != nil {
		return r, err
	}
	switch {
	case r.First > r.Last:
		until := "now"
		if !b.o.To.IsZero() {
			until = timeText(b.o.To)
		}
		return r, fmt.Errorf("pipeline: no message was stored from %s until %s: %s holds messages from %s to %s: %w", timeText(b.o.From), until, name, timeText(log.FirstTime), timeText(log.LastTime), ErrRange)
	case r.Begin > 1 && b.Model.Policy.Kind == reservoir.Endless:
		return r, fmt.Errorf("pipeline: under the policy endless a prediction depends on all samples since its stream began, and the reading would begin with message %d of the log: every prediction would be of something else than the job's: %w", r.Begin, ErrRange)
	}
	return r, nil
}

// open makes the source of messages.
func (b *backfilling) open(ctx context.Context, r backfillRange, after inlog.Place) (inlog.Source, error) {
	if b.stored == nil {
		m, err := b.o.Messages()
		if err != nil {
			return nil, err
		}
		return &numbered{messages: m, skip: after.Seq}, nil
	}
	l := b.log("")
	return l, l.Open(ctx, after, r.Begin, r.Last)
}

// numbered numbers messages outside a log, from 1.
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
