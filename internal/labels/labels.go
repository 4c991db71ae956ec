package labels

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

const (
	// MaxLabels is how many labels a job keeps; more are refused.
	MaxLabels = 10_000_000
	// MaxBytes limits the body of a label: three names of 256 bytes, each byte up to
	// six in JSON.
	MaxBytes = 8 << 10

	headerRoom   = 1 << 10
	repeatWindow = time.Hour // how long the server remembers a message's id
	attempts     = 3
	answerWait   = 5 * time.Second
	makeWait     = 2 * time.Second // a server does not answer a user without the right to ask
	readWait     = 10 * time.Second
	forgetAfter  = 30 * time.Second
)

// ErrNowhere reports a job without a NATS stream for labels, which this user may not
// create.
var ErrNowhere = errors.New("the job has no NATS stream for labels, and this user may not create it")

// Open requires that a job has a NATS stream for labels: it creates a missing stream,
// but not for a missing job.
func Open(ctx context.Context, js jetstream.JetStream, job string) error {
	name := wire.LabelStream(job)
	_, err := js.Stream(ctx, name)
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return asOurs(name, err)
	}
	if err := Exists(ctx, js, job); err != nil {
		return err
	}
	return Ensure(ctx, js, job, 0)
}

// Exists returns wire.ErrNoJob for labels of a missing job.
func Exists(ctx context.Context, js jetstream.JetStream, job string) error {
	out := wire.OutputStream(job)
	_, err := js.Stream(ctx, out)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("labels: %w %q", wire.ErrNoJob, job)
	}
	return asOurs(out, err)
}

// Ensure creates the NATS stream of a job's labels, if missing, even if the job does
// not exist yet.
func Ensure(ctx context.Context, js jetstream.JetStream, job string, replicas int) error {
	name := wire.LabelStream(job)
	_, err := js.Stream(ctx, name)
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return asOurs(name, err)
	}
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{
		Name: name, Subjects: []string{wire.LabelSubjects(job)}, Replicas: cmp.Or(replicas, 1), Duplicates: repeatWindow,
		MaxMsgs: MaxLabels, MaxMsgSize: MaxBytes + headerRoom, MaxBytes: -1, MaxMsgsPerSubject: -1,
		Discard: jetstream.DiscardNew, // when full, the labeling user gets an error
	})
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another process was first
		err = nil
	}
	return asOurs(name, err)
}

func asOurs(name string, err error) error {
	if err != nil {
		return fmt.Errorf("labels: NATS stream %s: %w", name, err)
	}
	return nil
}

// Add stores a label, and returns when it is stored. repeat: the server had an equal
// label. A failed label may be resent: it is stored once.
func Add(ctx context.Context, js jetstream.JetStream, job string, l Label) (repeat bool, err error) {
	data, err := l.Marshal()
	if err != nil {
		return false, err
	}
	m := &nats.Msg{Subject: wire.LabelSubject(job, l.Stream), Data: data, Header: nats.Header{
		jetstream.MsgIDHeader: {messageID(data)}, wire.HeaderKind: {wire.KindLabel},
	}}
	for range attempts {
		try, cancel := context.WithTimeout(ctx, answerWait)
		var ack *jetstream.PubAck
		ack, err = js.PublishMsg(try, m)
		cancel()
		switch {
		case err == nil:
			return ack.Duplicate, nil
		case errors.Is(err, jetstream.ErrNoStreamResponse):
			try, cancel := context.WithTimeout(ctx, makeWait)
			err = Open(try, js, job)
			cancel()
			if errors.Is(err, wire.ErrNoJob) {
				return false, err
			}
			if err != nil {
				return false, errors.Join(ctx.Err(), fmt.Errorf("labels: job %q: %w", job, ErrNowhere))
			}
		case ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, nats.ErrTimeout):
			return false, fmt.Errorf("labels: %w", err)
		}
	}
	return false, fmt.Errorf("labels: not known to be stored: %w", err)
}

// Stored is a label on the server.
type Stored struct {
	Label  Label
	Number uint64 // in the NATS stream, from 1
	Stored time.Time
}

// Read passes all current labels to fn, in stored order; of one stream if it is not
// empty. Other messages go to foreign.
func Read(ctx context.Context, js jetstream.JetStream, job, stream string, fn func(Stored) error, foreign func(number uint64, err error)) error {
	name := wire.LabelStream(job)
	filter := wire.LabelSubjects(job)
	if stream != "" {
		filter = wire.LabelSubject(job, stream)
	}
	s, err := js.Stream(ctx, name)
	if err != nil {
		return asOurs(name, err)
	}
	cons, err := js.OrderedConsumer(ctx, name, jetstream.OrderedConsumerConfig{FilterSubjects: []string{filter}, InactiveThreshold: forgetAfter})
	if err != nil {
		return asOurs(name, err)
	}
	last := s.CachedInfo().State.LastSeq
	var failed error
	err = natsclient.EachStored(ctx, cons, readWait, func(m jetstream.Msg, meta *jetstream.MsgMetadata) (bool, error) {
		l, err := Unmarshal(m.Data())
		switch {
		case err != nil:
			foreign(meta.Sequence.Stream, err)
		case stream == "" || l.Stream == stream:
			failed = fn(Stored{l, meta.Sequence.Stream, meta.Timestamp})
		}
		return failed == nil && meta.Sequence.Stream < last, nil
	})
	if err != nil {
		return asOurs(name, err)
	}
	return failed
}

// Current returns the valid labels: the last of each target, unless withdrawn. They
// keep their order.
func Current(all []Stored) []Stored {
	last := map[target]uint64{}
	for i := range all {
		last[all[i].Label.targetOf()] = all[i].Number
	}
	var current []Stored
	for _, l := range all {
		if l.Label.Class != "" && last[l.Label.targetOf()] == l.Number {
			current = append(current, l)
		}
	}
	return current
}
