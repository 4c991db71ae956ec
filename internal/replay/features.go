package replay

import (
	"context"
	"fmt"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/inlog"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Sequence is a sequence of a stream in a job's log, up to one of its predictions.
type Sequence = shard.Sequence

// Features selects features of a job's log.
type Features struct {
	// Stream selects streams; no state is computed for unselected streams.
	Stream func(name string) bool
	// Want selects sequences of these streams. Want is called at each prediction, in the order of the log.
	Want func(*Sequence) bool
	// Take gets the selected sequences, in the same order. The features are valid during the call.
	Take func(*Sequence, []float32) error
	// Begun gets the log that was found, and reports whether to read the log.
	Begun func(FeaturesLog) (bool, error)
	// Progress, optional, gets the progress of the reading.
	Progress func(FeaturesDone)
}

// FeaturesLog is a job's log, and its readers.
type FeaturesLog struct {
	Created     time.Time // of the input
	First, Last uint64    // its messages
	Begun       string    // when the job's output was made
	Network     string    // identity of the model without readouts, and of the arithmetic
	Settings    string    // further settings that features depend on
	JobNetwork  bool      // the job runs that network
}

// FeaturesDone is the progress of the reading.
type FeaturesDone struct {
	FeaturesLog
	Messages uint64 // read
	Samples  uint64 // in these messages
	Removed  uint64 // messages that were gone before they could be read
	Unusable uint64 // messages
	Reason   string // of the first unusable message
}

// ReadFeatures reads the present log of a job, on an engine of its own, with the stage's code, and hands out the
// features of sequences, which have the stage's bits. Messages are read as the job reads them. Nothing is published.
func ReadFeatures(ctx context.Context, job *pipeline.Job, o Features) (FeaturesDone, error) {
	l, end, err := dial(ctx, job, "features")
	if err != nil {
		return FeaturesDone{}, err
	}
	defer end()
	sh, err := l.newWholeShard()
	if err != nil {
		return FeaturesDone{}, err
	}
	defer sh.Close()
	log, err := l.featuresLog(ctx, sh)
	done := FeaturesDone{FeaturesLog: log}
	if err != nil {
		return done, err
	}
	if read, err := o.Begun(log); err != nil || !read || done.Last < done.First {
		return done, err
	}
	direct, err := shard.NewDirect(sh, nil)
	if err != nil {
		return done, err
	}
	direct.FollowSequences(shard.Followed{Stream: o.Stream, Want: o.Want, Take: o.Take})
	return done, done.read(ctx, l.log(""), direct, o.Progress)
}

// featuresLog describes the log to read.
func (l *jobLog) featuresLog(ctx context.Context, sh *shard.Shard) (FeaturesLog, error) {
	info, err := l.in.Info(ctx, 0)
	if err != nil {
		return FeaturesLog{}, err
	}
	own, c := sh.Machine.Shape.Identity(), l.Config
	theirs := l.entry.Identity
	theirs.Readout = "" // features do not depend on it
	return FeaturesLog{
		Created: info.Created, First: info.State.FirstSeq, Last: info.State.LastSeq, Begun: l.outputCreated(),
		Network: own.Network, JobNetwork: own.Differs(theirs) == "",
		Settings: fmt.Sprintf("input %s, non_finite %s, reorder %d", c.Input.Text(), c.NonFinite, c.Reorder),
	}, nil
}

// read reads the log up to its end at the start.
func (done *FeaturesDone) read(ctx context.Context, log *inlog.Log, direct *shard.Direct, progress func(FeaturesDone)) error {
	if err := log.Open(ctx, inlog.Place{}, done.First, done.Last); err != nil {
		return err
	}
	defer log.Close()
	count := func(*inlog.Message) bool { done.Messages++; return true }
	b := inlog.Batches{Source: log, Direct: direct, Cut: done.First > 1, Read: count}
	return b.Run(ctx, func() error {
		done.Removed = log.Removed()
		done.Samples += uint64(direct.Samples())
		dead, err := direct.ComputeFeatures()
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
		return nil
	})
}

// Ends reports whether a policy learns from the part of a sequence up to prediction q: up to the last prediction, or
// for endless sequences, up to each prediction.
func Ends(p reservoir.Policy, q *Sequence) bool {
	return (q.Flags&outcome.FlagEarly != 0) == (p.Kind == reservoir.Endless)
}
