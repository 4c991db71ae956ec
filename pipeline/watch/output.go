package watch

import (
	"context"
	"errors"
	"log/slog"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/pipeline/consumer"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/store"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
)

const queue = 64 // messages that were read and not judged

// reader reads a job's output in a goroutine of its own.
type reader struct {
	js      jetstream.JetStream
	job     string
	log     *slog.Logger
	outputs chan consumer.Output // what was read; those without a time have no predictions
	failed  chan error           // it has ended
	stop    func()               // ends it
}

// readOutput reads from a message on, until ctx ends.
func readOutput(ctx context.Context, js jetstream.JetStream, job string, from uint64, log *slog.Logger) *reader {
	r := &reader{js: js, job: job, log: log, outputs: make(chan consumer.Output, queue), failed: make(chan error, 1)}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	r.stop = func() { cancel(); <-ended }
	go func() { defer close(ended); r.read(ctx, from) }()
	return r
}

// read hands the output on.
func (r *reader) read(ctx context.Context, from uint64) {
	hand := func(o consumer.Output) error {
		select {
		case r.outputs <- o:
			from = o.Seq + 1
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	pass := func(seq uint64) { _ = hand(consumer.Output{Seq: seq}) }
	skip := func(e *consumer.ForeignError) {
		r.log.Warn("a message of the output is no prediction, and is left out", "err", e)
		pass(e.Seq)
	}
	for ctx.Err() == nil {
		err := consumer.Read(ctx, r.js, r.job, consumer.Span{From: from, Skip: skip, Passed: pass}, hand)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, jetstream.ErrStreamNotFound) && r.js.Conn().IsConnected() {
			if _, again := r.js.Stream(ctx, wire.OutputStream(r.job)); errors.Is(again, jetstream.ErrStreamNotFound) {
				r.failed <- err
				return
			}
		}
		r.log.Warn("reading the job's output again", "from", from, "err", err)
		if store.Pause(ctx, lookEvery) != nil {
			return
		}
	}
}
