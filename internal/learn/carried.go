package learn

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/replay"
)

// carried takes the features that predictions carry, of the sequences that labels are
// about. They come before those of the log, which may lack the beginning of the same
// sequences.
func (p *Pass) carried(ctx context.Context, f *finder, log replay.FeaturesLog) error {
	if p.JS == nil {
		return nil
	}
	had := f.store.Len()
	job, features := f.store.state.About.Job, f.store.state.About.Features
	err := consumer.Carried(ctx, p.JS, job, consumer.Span{From: 1, Stored: true}, func(o consumer.CarriedOutput) error {
		if o.Begun != log.Begun || o.Network != log.Network {
			return nil // of a job that had this name before, or of another network
		}
		for i := range o.Predictions {
			c := &o.Predictions[i]
			if len(c.Features) != features {
				return fmt.Errorf("learn: message %d of the predictions with features: they have %d features, want %d", o.Seq, len(c.Features), features)
			}
			q := replay.Sequence{Prediction: c.Prediction, In: c.Input, Stored: c.Stored, Samples: c.Samples, Rows: c.Samples, Earliest: c.Began, Latest: c.Time}
			if q.Earliest == codec.NoTime || q.Latest == codec.NoTime {
				q.Earliest, q.Latest = codec.NoTime, codec.NoTime
			}
			if !f.streams[q.Stream] || !f.want(&q) {
				continue
			}
			e := entryOf(&q)
			e.Last, e.Carried = Place{q.In, q.Seq, q.Row}, true
			if err := f.store.add(e, c.Features); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil // none do
	}
	if err == nil && p.Carried != nil {
		p.Carried(f.store.Len() - had)
	}
	return err
}

// follows reports whether a sequence overlaps the one before it in its stream, last, or
// follows it without a sample between.
func follows(last, e *Entry) bool {
	if !e.Carried {
		return e.Before != (Place{}) && !last.Last.before(e.Before)
	}
	if e.Earliest == codec.NoTime || last.Latest == codec.NoTime || last.Samples < 2 {
		return true // nobody knows
	}
	// By the times: no later than one and a half of the intervals in the one before.
	interval := (last.Latest - last.Earliest) / (last.Samples - 1)
	return e.Earliest-last.Latest <= interval+interval/2
}
