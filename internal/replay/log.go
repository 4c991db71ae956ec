package replay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/bridge"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/inlog"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/stats"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// ErrRange reports a time outside the job's log.
var ErrRange = errors.New("not in the log")

// mostSlots is the number of slots of an engine without separately stored states.
const mostSlots = 1 << 28

// jobLog is the log of a job, opened for reading in parallel with the job's workers.
type jobLog struct {
	*pipeline.Job // Config reads messages as the job reads them
	bridge.Prepared
	stored *store.Job // nil: no job is read (Backfill.Messages)
	in     *store.Input
	entry  wire.Entry
}

// prepare checks a job's configuration and model for a computation with one shard.
func prepare(job *pipeline.Job) (*jobLog, error) {
	alone := *job
	alone.Config.Partitions, alone.Config.Shards = 1, 1
	p, err := bridge.Prepare(&alone)
	return &jobLog{Job: &alone, Prepared: p}, err
}

// dial opens the log over a new connection, which the caller closes with end.
func dial(ctx context.Context, job *pipeline.Job, name string) (l *jobLog, end func(), err error) {
	if l, err = prepare(job); err != nil {
		return nil, nil, err
	}
	nc, err := job.Dial(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		err = fmt.Errorf("pipeline: JetStream: %w", err)
	} else {
		err = l.open(ctx, js, store.Follow(nc))
	}
	if err != nil {
		nc.Close()
		return nil, nil, err
	}
	return l, nc.Close, nil
}

// open opens the log over a connection followed by link; link may be nil.
func (l *jobLog) open(ctx context.Context, js jetstream.JetStream, link *store.Link) (err error) {
	if l.stored, err = store.Open(ctx, js, l.Config.Job); err != nil {
		return err
	}
	l.in = l.stored.Input(link)
	if l.entry, _, err = store.ReadEntry(ctx, l.stored.Out, l.stored.Name); err != nil {
		return err
	}
	return l.AdoptInput(ctx, l.stored)
}

// log returns a reader of the messages with the subject only; empty: all messages.
func (l *jobLog) log(only string) *inlog.Log {
	return &inlog.Log{Input: l.in, JS: l.stored.JS, Log: l.Log, Only: only}
}

// outputCreated is when the job's output was made.
func (l *jobLog) outputCreated() string {
	return wire.CreatedText(l.stored.Out.CachedInfo().Created)
}

// shardConfig is the configuration of a shard without separately stored states. End events come from the log.
func (l *jobLog) shardConfig() shard.Config {
	c := l.ShardConfig()
	c.MaxSlots, c.Idle, c.Forget, c.MaxKey = mostSlots, 0, 0, 0
	if l.stored != nil {
		c.MaxKey = l.stored.Pattern.MaxKey()
	}
	return c
}

// newShard makes a shard on an engine of its own.
func (l *jobLog) newShard(c shard.Config, log *slog.Logger) (*shard.Shard, error) {
	linear, _ := l.Predicting()
	return shard.New(c, l.Model, linear, l.NewEngine, new(stats.Counters), log)
}

// newWholeShard makes a shard that has all partitions in one, and predicts with the requested readout, ignoring
// promotions in the log.
func (l *jobLog) newWholeShard() (*shard.Shard, error) {
	c := l.shardConfig()
	if l.stored != nil {
		c.MaxStreams, c.ReorderBytes = c.MaxStreams*l.stored.Partitions, c.ReorderBytes*l.stored.Partitions
	} else {
		c.MaxStreams *= pipeline.Defaults().Partitions
	}
	// Oddities of old data are in the flags of predictions, and are counted.
	sh, err := l.newShard(c, slog.New(slog.DiscardHandler))
	if err == nil {
		sh.Machine.OneReadout = true
	}
	return sh, err
}

// isJobs reports whether a shard has the job's model.
func (l *jobLog) isJobs(sh *shard.Shard) (bool, error) {
	own := sh.Machine.Shape.Identity()
	var err error
	own.Readout, err = l.ReadoutIdentity()
	return own.Differs(l.entry.Identity) == "", err
}

// span is a part of the log, by time: from From (zero: the first message) until before To (zero: the last message),
// and before From a lead-in, which is read for the states.
type span struct {
	From, To time.Time
	LeadIn   time.Duration // negative: from the first message
}

// messages returns the first message to read, the first requested message, and the last message. info describes the
// job's input.
func (s *span) messages(ctx context.Context, l *jobLog, info *jetstream.StreamInfo) (begin, first, last uint64, err error) {
	log := info.State
	since := func(t time.Time) uint64 {
		seq := uint64(0)
		if err == nil {
			seq, err = store.FirstSince(ctx, l.stored.JS, log, info.Config.Name, t)
		}
		return seq
	}
	begin, first, last = log.FirstSeq, log.FirstSeq, log.LastSeq
	if !s.From.IsZero() {
		if s.LeadIn >= 0 {
			begin = since(s.From.Add(-s.LeadIn))
		}
		first = since(s.From)
	}
	if !s.To.IsZero() {
		last = since(s.To) - 1
	}
	return begin, first, last, err
}

// checkFrom makes sure that the log still has all messages since From.
func (s *span) checkFrom(info *jetstream.StreamInfo) error {
	if log := info.State; !s.From.IsZero() && s.From.Before(log.FirstTime) && log.FirstSeq > 1 {
		return fmt.Errorf("pipeline: %s begins with message %d, stored %s; what was stored before, and since %s, was removed (input.max_age, input.max_bytes, or by hand): %w",
			info.Config.Name, log.FirstSeq, timeText(log.FirstTime), timeText(s.From), ErrRange)
	}
	return nil
}

func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
