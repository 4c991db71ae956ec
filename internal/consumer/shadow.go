package consumer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// ShadowOutput is a message of a shadow, without repeats.
type ShadowOutput struct {
	Seq         uint64 // in the NATS stream of the job's shadows
	Stored      time.Time
	Shadow      string // fingerprint of its readout
	Begun       string // creation time of the output with the numbered predictions
	Partition   int
	Outs        uint64 // number of the last prediction among the predictions of the partition
	Missing     uint64 // predictions of the partition since the previous message that are missing in the shadow
	Meta        codec.PredictionMeta
	Predictions []codec.Prediction // with Details
}

// Shadows passes the predictions of a job's shadows to fn, in the order of their NATS
// stream. After a takeover a worker repeats uncommitted messages: each prediction has a
// number in its partition, which identifies repeats, so that fn gets each prediction
// once.
func Shadows(ctx context.Context, js jetstream.JetStream, job string, span Span, fn func(ShadowOutput) error) error {
	r := shadowReader{read: map[numbered]uint64{}}
	return readStream(ctx, js, job, wire.ShadowStream(job), span, func(m jetstream.Msg, meta *jetstream.MsgMetadata, part int) error {
		o := ShadowOutput{Seq: meta.Sequence.Stream, Stored: meta.Timestamp, Partition: part, Shadow: wire.ShadowOf(m.Subject())}
		var err error
		if o.Meta, o.Predictions, err = codec.DecodePredictions(m.Data()); err == nil && !o.Meta.Shadow {
			err = errors.New("the predictions have no details of a shadow")
		}
		if err == nil {
			o.Outs, err = strconv.ParseUint(m.Headers().Get(wire.HeaderOuts), 10, 64)
		}
		if err == nil && (o.Shadow == "" || o.Outs < uint64(len(o.Predictions))) {
			err = fmt.Errorf("header %s is %d with %d predictions", wire.HeaderOuts, o.Outs, len(o.Predictions))
		}
		if err != nil {
			return wire.Foreign(o.Seq, m.Subject(), err)
		}
		if o.Begun = m.Headers().Get(wire.HeaderOutCreated); r.isFresh(&o) {
			return fn(o)
		}
		return nil
	})
}

// numbered is the scope of a prediction's number: a new job restarts its numbers from
// 1.
type numbered struct {
	begun, shadow string
	part          int
}

// shadowReader tracks the numbers read.
type shadowReader struct{ read map[numbered]uint64 }

// isFresh removes predictions read before, and reports whether any remain.
func (r *shadowReader) isFresh(o *ShadowOutput) bool {
	which := numbered{o.Begun, o.Shadow, o.Partition}
	before := o.Outs - uint64(len(o.Predictions))
	last, known := r.read[which]
	switch {
	case !known:
	case o.Outs <= last:
		return false
	case before > last:
		o.Missing = before - last
	default:
		o.Predictions = o.Predictions[last-before:]
	}
	r.read[which] = o.Outs
	return true
}
