package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/backfill"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/inlog"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Sequence is one of a stream in a job's log, as far as one of its predictions.
type Sequence = shard.Sequence

// Features says which features of a job's log are wanted.
type Features struct {
	// Stream says of which streams; no state is computed for the others.
	Stream func(name string) bool
	// Want says of which of their sequences. It is asked about each prediction, in the
	// order of the log.
	Want func(*Sequence) bool
	// Take gets these, in the same order. The features are valid during the call.
	Take func(*Sequence, []float32) error
	// Begun is told which log there is, and says whether it is to be read.
	Begun func(FeaturesLog) (bool, error)
	// Progress, optional, is told how far the reading is.
	Progress func(FeaturesDone)
}

// FeaturesLog is a job's log, and what reads it.
type FeaturesLog struct {
	Created     time.Time // of the input
	First, Last uint64    // its messages
	Begun       string    // when the job's output was made
	Network     string    // identity of the model without readouts, and of the arithmetic
	Settings    string    // what else features depend on
	JobNetwork  bool      // the job runs that network
}

// FeaturesDone is what was read.
type FeaturesDone struct {
	FeaturesLog
	Messages uint64 // read
	Samples  uint64 // in them
	Removed  uint64 // messages that were gone before they could be read
	Unusable uint64 // messages
	Reason   string // of the first of these
}

// Features reads all that a job's log holds now, on an engine of its own, as the
// stage does, with the stage's code, and hands out the features of sequences. They
// have the bits that the stage has. Config, Model and NewEngine are those of a
// stage; messages are read as the job reads them. Nothing is published.
func (s *Stage) Features(ctx context.Context, o Features) (FeaturesDone, error) {
	alone := *s
	alone.Config.Partitions, alone.Config.Shards = 1, 1
	r, err := alone.prepare()
	if err != nil {
		return FeaturesDone{}, err
	}
	nc, err := s.Dial("features")
	if err != nil {
		return FeaturesDone{}, err
	}
	defer nc.Close()
	b := &backfilling{run: r}
	if err := b.find(ctx, nc); err != nil {
		return FeaturesDone{}, err
	}
	sh, err := b.shard()
	if err != nil {
		return FeaturesDone{}, err
	}
	defer sh.Close()
	done, err := b.features(ctx, sh)
	if err != nil {
		return done, err
	}
	if read, err := o.Begun(done.FeaturesLog); err != nil || !read || done.Last < done.First {
		return done, err
	}
	direct, err := shard.NewDirect(sh, nil)
	if err != nil {
		return done, err
	}
	direct.Follow(shard.Followed{Stream: o.Stream, Want: o.Want, Take: o.Take})
	return done, b.follow(ctx, direct, &done, o.Progress)
}

// features is what is about to be read.
func (b *backfilling) features(ctx context.Context, sh *shard.Shard) (FeaturesDone, error) {
	info, err := b.in.Info(ctx, 0)
	if err != nil {
		return FeaturesDone{}, err
	}
	own, c := sh.Machine.Shape.Identity(), b.run.cfg
	theirs := b.entry.Identity
	theirs.Readout = "" // features do not depend on it
	return FeaturesDone{FeaturesLog: FeaturesLog{
		Created: info.Created, First: info.State.FirstSeq, Last: info.State.LastSeq, Begun: wire.CreatedText(b.job.Out.CachedInfo().Created),
		Network: own.Network, JobNetwork: own.Differs(theirs) == "",
		Settings: fmt.Sprintf("input %s, non_finite %s, reorder %d", c.Input.Text(), c.NonFinite, c.Reorder),
	}}, nil
}

// follow reads the log to the end that it had.
func (b *backfilling) follow(ctx context.Context, d *shard.Direct, done *FeaturesDone, progress func(FeaturesDone)) error {
	l := &inlog.Log{Input: b.in, JS: b.job.JS, Log: b.run.log}
	if err := l.Open(ctx, inlog.Place{}, done.First, done.Last); err != nil {
		return err
	}
	defer l.Close()
	for over := false; !over; {
		d.Begin()
		for room := true; room; {
			m, err := l.Next(ctx)
			if over = errors.Is(err, io.EOF); over {
				break
			}
			if err != nil {
				return err
			}
			if room, err = d.Take(m.Message, m.Stored); err != nil {
				return err
			}
			done.Messages++
		}
		if over && done.First > 1 {
			if err := backfill.Release(d); err != nil {
				return err
			}
		}
		done.Removed = l.Removed()
		done.Samples += uint64(d.Samples())
		dead, err := d.Features()
		if err != nil {
			return err
		}
		for _, m := range dead {
			if done.Unusable++; done.Reason == "" {
				done.Reason = fmt.Sprintf("message %d of key %q: %s", m.Msg.Seq, m.Msg.Key, m.Reason)
			}
		}
		if progress != nil {
			progress(*done)
		}
	}
	return nil
}

// Ends reports whether a policy learns from a sequence as far as a prediction: as
// far as the last one, or where sequences do not end, as far as each.
func Ends(p reservoir.Policy, q *Sequence) bool {
	return (q.Flags&outcome.FlagEarly != 0) == (p.Kind == reservoir.Endless)
}

// Readout is the one of the model that the stage predicts with.
func (s *Stage) Readout() (*readout.Linear, error) { return pickReadout(s.Model, s.Config.Readout) }
