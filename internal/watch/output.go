package watch

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

const (
	queueSize  = 64                    // messages that were read and not judged
	shortRetry = 20 * time.Millisecond // before the next attempt, and between checks of the connection
)

// outputReader reads a job's output in its own goroutine.
type outputReader struct {
	js      jetstream.JetStream
	link    *store.Link
	job     string
	log     *slog.Logger
	outputs chan consumer.Output // messages read; a message without a time has no predictions
	failed  chan error           // the reader has ended
	stop    func()               // ends the reader
}

// readOutput reads from a message on, until ctx ends.
func readOutput(ctx context.Context, js jetstream.JetStream, link *store.Link, job string, from uint64, log *slog.Logger) *outputReader {
	r := &outputReader{js: js, link: link, job: job, log: log, outputs: make(chan consumer.Output, queueSize), failed: make(chan error, 1)}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	r.stop = func() { cancel(); <-ended }
	go func() { defer close(ended); r.deliverOutputs(ctx, from) }()
	return r
}

// deliverOutputs sends the output's messages to the channel. It creates a new consumer for each
// connection: the client's ordered consumer waits 10 s for a reply if the server is killed while it
// recreates the consumer.
func (r *outputReader) deliverOutputs(ctx context.Context, from uint64) {
	deliver := func(o consumer.Output) error {
		select {
		case r.outputs <- o:
			from = o.Seq + 1
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	pass := func(seq uint64) { _ = deliver(consumer.Output{Seq: seq}) }
	skip := func(e *consumer.ForeignError) {
		r.log.Warn("a message of the output is no prediction and is skipped", "err", e)
		pass(e.Seq)
	}
	warned := time.Time{}
	for ctx.Err() == nil {
		up, done := r.link.Connection(ctx)
		err := consumer.Read(up, r.js, r.job, consumer.Span{From: from, Skip: skip, Passed: pass}, deliver)
		done()
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, jetstream.ErrStreamNotFound) && r.js.Conn().IsConnected() {
			if _, err2 := r.js.Stream(ctx, wire.OutputStream(r.job)); errors.Is(err2, jetstream.ErrStreamNotFound) {
				r.failed <- err
				return
			}
		}
		if err == nil || !r.js.Conn().IsConnected() {
			_ = awaitConnection(ctx, r.js.Conn())
			continue
		}
		if time.Since(warned) > warnEvery {
			warned = time.Now()
			r.log.Warn("retrying to read the job's output", "from", from, "err", err)
		}
		_ = store.Pause(ctx, store.RetryWait)
	}
}

// awaitConnection waits for a short time, then until the client is connected or closed. The error
// is ctx's.
func awaitConnection(ctx context.Context, nc *nats.Conn) error {
	for {
		if err := store.Pause(ctx, shortRetry); err != nil || nc.IsConnected() || nc.IsClosed() {
			return err
		}
	}
}
