package explain

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// ErrNotFound means that the job's output does not have the prediction.
var ErrNotFound = errors.New("there is no such prediction")

// Query names a prediction: the newest of a stream, the newest of a stream with a Seq and a Row,
// one of an output message, or one by its number in a partition.
type Query struct {
	Stream string
	Seq    *uint64 // as in the prediction
	Row    *uint32 // nil: the last predicted row of the message

	Output    uint64 // message of the job's output
	Partition int    // with Number and without Output
	Number    uint64 // in the message or the partition, from 1
}

// Found is a prediction in the job's output.
type Found struct {
	Output     uint64 // message
	Stored     time.Time
	Partition  int
	Index      int // in the message
	Of         int // number of predictions in the message
	Number     uint64
	Meta       codec.PredictionMeta
	Prediction codec.Prediction

	job    string
	record wire.Record
	same   int // later predictions of the message with the same place, including this one
}

// finder searches for predictions of a job.
type finder struct {
	js  jetstream.JetStream
	job string
	out jetstream.Stream
	// range of the output
	first, last uint64
}

// Find finds a prediction. The error is ErrNotFound if the output does not have the prediction.
func Find(ctx context.Context, js jetstream.JetStream, job string, a Query) (Found, error) {
	j, err := store.Open(ctx, js, job)
	if err != nil {
		return Found{}, err
	}
	info, err := j.Out.Info(ctx)
	if err != nil {
		return Found{}, fmt.Errorf("explain: %w", err)
	}
	f := &finder{js, job, j.Out, info.State.FirstSeq, info.State.LastSeq}
	switch {
	case a.Stream != "":
		return f.withJob(f.findInStream(ctx, a))
	case a.Output > 0:
		return f.withJob(f.findInMessage(ctx, a))
	}
	if a.Partition < 0 || a.Partition >= j.Partitions {
		return Found{}, fmt.Errorf("explain: partition %d, job %q has 0 to %d: %w", a.Partition, job, j.Partitions-1, ErrNotFound)
	}
	return f.withJob(f.findByNumber(ctx, a))
}

// withJob adds the job to a prediction.
func (f *finder) withJob(p Found, err error) (Found, error) {
	p.job = f.job
	return p, err
}

// IsCurrent reports whether the prediction's partition still has the same keys: the number of
// partitions has not changed since.
func (p *Found) IsCurrent(ctx context.Context, js jetstream.JetStream) (bool, error) {
	j, err := store.Open(ctx, js, p.job)
	if err != nil {
		return false, err
	}
	if p.Partition >= j.Partitions {
		return false, nil
	}
	r, err := j.Record(ctx, p.Partition)
	return r.Generation == p.record.Generation, err
}

// findInStream searches backward from the output's end.
func (f *finder) findInStream(ctx context.Context, a Query) (Found, error) {
	matches := func(p *codec.Prediction) bool {
		return p.Stream == a.Stream && (a.Seq == nil || p.Seq == *a.Seq) && (a.Row == nil || p.Row == *a.Row)
	}
	end, size := f.last+1, uint64(64)
	for end > f.first {
		from := max(f.first, end-min(size, end))
		at, index := uint64(0), 0
		stop := errors.New("enough")
		err := consumer.Read(ctx, f.js, f.job, consumer.Span{From: max(1, from), Stored: true, Skip: func(*consumer.ForeignError) {}}, func(o consumer.Output) error {
			if o.Seq >= end {
				return stop
			}
			for i := range o.Predictions {
				if matches(&o.Predictions[i]) {
					at, index = o.Seq, i
				}
			}
			return nil
		})
		if err == nil {
			err = ctx.Err()
		}
		if err != nil && !errors.Is(err, stop) {
			return Found{}, err
		}
		if at > 0 {
			return f.loadPrediction(ctx, at, index)
		}
		end, size = from, 8*size
	}
	what := "of stream " + strconv.Quote(a.Stream)
	if a.Seq != nil {
		what += fmt.Sprintf(" with seq %d", *a.Seq)
	}
	if a.Row != nil {
		what += fmt.Sprintf(" and row %d", *a.Row)
	}
	return Found{}, f.notFound(what)
}

// notFound returns an error with the range of the output.
func (f *finder) notFound(what string) error {
	return fmt.Errorf("explain: %w %s: %s has messages %d to %d", ErrNotFound, what, wire.OutputStream(f.job), f.first, f.last)
}

// findInMessage finds a prediction of an output message.
func (f *finder) findInMessage(ctx context.Context, a Query) (Found, error) {
	all, err := f.loadMessage(ctx, a.Output)
	if err != nil {
		return Found{}, err
	}
	n := len(all.predictions)
	switch {
	case n == 0:
		return Found{}, fmt.Errorf("explain: %w: output message %d has no predictions, only the position of its partition", ErrNotFound, a.Output)
	case a.Number == 0 && n > 1:
		return Found{}, fmt.Errorf("explain: output message %d has %d predictions: specify one, from 1 to %d", a.Output, n, n)
	case a.Number > uint64(n):
		return Found{}, fmt.Errorf("explain: %w: output message %d has %d predictions, not %d", ErrNotFound, a.Output, n, a.Number)
	}
	return all.predictionAt(int(max(a.Number, 1)) - 1), nil
}

// findByNumber finds a prediction by its number in a partition; numbers rise with the messages.
func (f *finder) findByNumber(ctx context.Context, a Query) (Found, error) {
	low, high := f.first, f.last+1 // range of the first record with enough predictions, if any
	var hit *outputMessage
	for low < high {
		mid := low + (high-low)/2
		m, err := f.nextMessage(ctx, a.Partition, mid)
		if err != nil {
			return Found{}, err
		}
		if m == nil || m.record.Outs >= a.Number {
			if m != nil {
				hit = m
			}
			high = mid
			continue
		}
		low = m.seq + 1
	}
	if a.Number == 0 || hit == nil || hit.record.Outs-uint64(len(hit.predictions)) >= a.Number {
		return Found{}, f.notFound(fmt.Sprintf("with number %d in partition %d", a.Number, a.Partition))
	}
	return hit.predictionAt(int(a.Number - 1 - (hit.record.Outs - uint64(len(hit.predictions))))), nil
}

// nextMessage returns a partition's first message from seq on, nil if there is none.
func (f *finder) nextMessage(ctx context.Context, part int, seq uint64) (*outputMessage, error) {
	raw, err := f.out.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(wire.OutputSubject(f.job, part)))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("explain: %s: %w", wire.OutputStream(f.job), err)
	}
	return f.parseMessage(raw)
}

// loadPrediction loads a prediction by its message and index.
func (f *finder) loadPrediction(ctx context.Context, seq uint64, index int) (Found, error) {
	m, err := f.loadMessage(ctx, seq)
	if err != nil {
		return Found{}, err
	}
	if index >= len(m.predictions) {
		return Found{}, f.notFound("any more")
	}
	return m.predictionAt(index), nil
}

// outputMessage is a decoded message of predictions.
type outputMessage struct {
	seq         uint64
	stored      time.Time
	partition   int
	record      wire.Record
	meta        codec.PredictionMeta
	predictions []codec.Prediction
}

func (f *finder) loadMessage(ctx context.Context, seq uint64) (*outputMessage, error) {
	raw, err := f.out.GetMsg(ctx, seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, f.notFound(fmt.Sprintf("in output message %d, which does not exist", seq))
	}
	if err != nil {
		return nil, fmt.Errorf("explain: %s: %w", wire.OutputStream(f.job), err)
	}
	return f.parseMessage(raw)
}

func (f *finder) parseMessage(raw *jetstream.RawStreamMsg) (*outputMessage, error) {
	m := &outputMessage{seq: raw.Sequence, stored: raw.Time}
	if raw.Header.Get(wire.HeaderKind) == wire.KindJob {
		return nil, fmt.Errorf("explain: %w: output message %d names the model of the job", ErrNotFound, m.seq)
	}
	var err error
	if m.partition, err = strconv.Atoi(raw.Subject[strings.LastIndexByte(raw.Subject, '.')+1:]); err != nil {
		return nil, wire.Foreign(m.seq, raw.Subject, err)
	}
	if m.record, err = wire.ParseRecord(raw.Header, raw.Subject, m.seq); err != nil {
		return nil, err
	}
	if m.meta, m.predictions, err = codec.DecodePredictions(raw.Data); err != nil {
		return nil, wire.Foreign(m.seq, raw.Subject, err)
	}
	return m, nil
}

func (m *outputMessage) predictionAt(i int) Found {
	n, p := len(m.predictions), m.predictions[i]
	f := Found{
		Output: m.seq, Stored: m.stored, Partition: m.partition, Index: i, Of: n, Number: m.record.Outs - uint64(n-i-1),
		Meta: m.meta, Prediction: p, record: m.record,
	}
	for j := i; j < n; j++ {
		if samePlace(&m.predictions[j], &p) {
			f.same++
		}
	}
	return f
}

// samePlace reports whether two predictions have the same stream and last sample, as far as their
// data shows.
func samePlace(a, b *codec.Prediction) bool {
	return a.Stream == b.Stream && a.Seq == b.Seq && a.Row == b.Row && a.Time == b.Time && (a.Flags^b.Flags)&outcome.FlagEarly == 0
}

// networkReplacedAfter returns the input message after which a prediction's partition has its
// network, if it had another network before (job replace); else 0.
func networkReplacedAfter(ctx context.Context, js jetstream.JetStream, p *Found) (cut uint64, err error) {
	if p.record.Generation == 0 {
		return 0, nil
	}
	j, err := store.Open(ctx, js, p.job)
	if err != nil {
		return 0, err
	}
	info, err := j.Out.Info(ctx)
	if err != nil {
		return 0, fmt.Errorf("explain: %w", err)
	}
	f := &finder{js, p.job, j.Out, info.State.FirstSeq, p.Output}
	first, err := f.nextMessage(ctx, p.Partition, f.first)
	if err != nil || first == nil || first.record.Network == p.record.Network {
		return 0, err
	}
	low, high := f.first, p.Output // range of the first record of this network and generation
	for low < high {
		mid := low + (high-low)/2
		m, err := f.nextMessage(ctx, p.Partition, mid)
		if err != nil {
			return 0, err
		}
		if m == nil || m.record.Network == p.record.Network && m.record.Generation == p.record.Generation {
			high = mid
			continue
		}
		low = m.seq + 1
	}
	m, err := f.nextMessage(ctx, p.Partition, low)
	if err != nil || m == nil {
		return 0, err
	}
	return m.record.InSeq, nil
}
