package watch

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

const (
	queue     = 64                    // messages that were read and not judged
	againSoon = 20 * time.Millisecond // between attempts to read while the connection is away
)

// reader reads a job's output in a goroutine of its own.
type reader struct {
	js      jetstream.JetStream
	link    *store.Link
	job     string
	log     *slog.Logger
	outputs chan consumer.Output // what was read; those without a time have no predictions
	failed  chan error           // it has ended
	stop    func()               // ends it
}

// readOutput reads from a message on, until ctx ends.
func readOutput(ctx context.Context, js jetstream.JetStream, link *store.Link, job string, from uint64, log *slog.Logger) *reader {
	r := &reader{js: js, link: link, job: job, log: log, outputs: make(chan consumer.Output, queue), failed: make(chan error, 1)}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	r.stop = func() { cancel(); <-ended }
	go func() { defer close(ended); r.read(ctx, from) }()
	return r
}

// read hands the output on. It begins anew on each connection: a consumer of the client's that
// asks for its successor when the server is killed again waits 10 s for the answer.
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
	told := time.Time{}
	for ctx.Err() == nil {
		up, done := r.link.Connection(ctx)
		err := consumer.Read(up, r.js, r.job, consumer.Span{From: from, Skip: skip, Passed: pass}, hand)
		done()
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, jetstream.ErrStreamNotFound) && r.js.Conn().IsConnected() {
			if _, again := r.js.Stream(ctx, wire.OutputStream(r.job)); errors.Is(again, jetstream.ErrStreamNotFound) {
				r.failed <- err
				return
			}
		}
		wait := againSoon
		if err != nil && r.js.Conn().IsConnected() {
			if wait = store.RetryWait; time.Since(told) > toldEvery {
				told = time.Now()
				r.log.Warn("reading the job's output again", "from", from, "err", err)
			}
		}
		if store.Pause(ctx, wait) != nil {
			return
		}
	}
}
