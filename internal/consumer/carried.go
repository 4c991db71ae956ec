package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// CarriedOutput is a message of predictions with features, without repeats.
type CarriedOutput struct {
	Seq         uint64 // in the NATS stream of features
	Stored      time.Time
	Network     string // identity of the model without its readouts
	Begun       string // creation time of the output with the numbered predictions
	Partition   int
	Meta        codec.PredictionMeta
	Predictions []codec.Prediction // with Details
}

// Carried passes a job's predictions with features to fn, in the order of their NATS
// stream. After a takeover a worker repeats uncommitted messages: repeats are skipped,
// so that fn gets each prediction once. The last predictions may not be committed yet.
func Carried(ctx context.Context, js jetstream.JetStream, job string, span Span, fn func(CarriedOutput) error) error {
	last := map[numbered]uint64{} // last number read
	return readStream(ctx, js, job, wire.FeatureStream(job), span, func(m jetstream.Msg, meta *jetstream.MsgMetadata, part int) error {
		o := CarriedOutput{Seq: meta.Sequence.Stream, Stored: meta.Timestamp, Partition: part, Network: m.Headers().Get(wire.HeaderNetwork), Begun: m.Headers().Get(wire.HeaderOutCreated)}
		var err error
		if o.Meta, o.Predictions, err = codec.DecodePredictions(m.Data()); err == nil && o.Meta.Features == 0 {
			err = errors.New("the predictions have no features")
		}
		if err != nil {
			return wire.Foreign(o.Seq, m.Subject(), err)
		}
		which, fresh := numbered{begun: o.Begun, part: part}, o.Predictions[:0]
		for i := range o.Predictions {
			p := &o.Predictions[i]
			number := p.Details.Number
			if number == 0 {
				return wire.Foreign(o.Seq, m.Subject(), fmt.Errorf("row %d has number 0: predictions are numbered from 1", i))
			}
			if number > last[which] {
				last[which] = number
				fresh = append(fresh, *p)
			}
		}
		if o.Predictions = fresh; len(fresh) == 0 {
			return nil
		}
		return fn(o)
	})
}
