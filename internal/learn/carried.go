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

// readCarried stores the features that predictions carry, for sequences with labels. It precedes
// reading the log, which may lack the start of the same sequences.
func (p *Pass) readCarried(ctx context.Context, f *finder, log replay.FeaturesLog) error {
	if p.JS == nil {
		return nil
	}
	before := f.store.Len()
	job, features := f.store.state.Origin.Job, f.store.state.Origin.Features
	err := consumer.Carried(ctx, p.JS, job, consumer.Span{From: 1, Stored: true}, func(o consumer.CarriedOutput) error {
		if o.Begun != log.Begun || o.Network != log.Network {
			return nil // of an earlier job with this name, or of another network
		}
		for i := range o.Predictions {
			c := o.Predictions[i].Details
			if len(c.Features) != features {
				return fmt.Errorf("learn: message %d of the predictions with features: they have %d features, want %d", o.Seq, len(c.Features), features)
			}
			q := replay.Sequence{Prediction: o.Predictions[i], In: c.Input, Stored: c.Stored, Samples: c.Samples, Rows: c.Samples, Earliest: c.Began, Latest: o.Predictions[i].Time}
			if q.Earliest == codec.NoTime || q.Latest == codec.NoTime {
				q.Earliest, q.Latest = codec.NoTime, codec.NoTime
			}
			if !f.streams[q.Stream] || !f.wantsSequence(&q) {
				continue
			}
			e := entryOf(&q)
			e.Last, e.Carried = Place{q.In, q.Seq, q.Row}, true
			if err := f.store.addEntry(e, c.Features); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil // no prediction carries features
	}
	if err == nil && p.Carried != nil {
		p.Carried(f.store.Len() - before)
	}
	return err
}

// isAdjacent reports whether a sequence overlaps the previous sequence of its stream, last, or
// follows without a sample between them.
func isAdjacent(last, e *Entry) bool {
	if !e.Carried {
		return e.Before != (Place{}) && !last.Last.isBefore(e.Before)
	}
	if e.Earliest == codec.NoTime || last.Latest == codec.NoTime || last.Samples < 2 {
		return true // unknown
	}
	// By times: at most one and a half sample intervals of the previous sequence.
	interval := (last.Latest - last.Earliest) / (last.Samples - 1)
	return e.Earliest-last.Latest <= interval+interval/2
}
