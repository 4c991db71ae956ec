package client_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/client"
	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// TestConnectKeepsContext: a context that ends also ends the wait for a silent server.
func TestConnectKeepsContext(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := client.Connect(ctx, client.Options{URL: "nats://" + silent.Addr().String()}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want %v", err, context.DeadlineExceeded)
	}
	if waited := time.Since(began); waited > 2*time.Second {
		t.Errorf("Connect returned after %v", waited)
	}
}

// connect connects to a server without a job.
func connect(t *testing.T, o client.Options) (*client.Client, jetstream.JetStream) {
	t.Helper()
	s := pipelinetest.Server(t, natsserver.Options{Port: natsserver.RandomPort})
	o.URL = s.URL()
	c, err := client.Connect(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.Background()) })
	_, js := pipelinetest.Connect(t, s)
	return c, js
}

// readError reads until an error.
func readError(ctx context.Context, c *client.Client, o client.ReadOptions) error {
	for _, err := range c.Predictions(ctx, o) {
		if err != nil {
			return err
		}
	}
	return nil
}

func wantError(t *testing.T, what string, err error, all ...error) {
	t.Helper()
	for _, want := range all {
		if !errors.Is(err, want) {
			t.Errorf("%s: error %v, want %v", what, err, want)
		}
	}
}

func TestErrors(t *testing.T) {
	ctx := t.Context()
	reader, _ := connect(t, client.Options{Job: "none"})
	label := client.Label{Stream: "p", Seq: 1, Class: "a", Who: "anna"}
	wantError(t, "read", readError(ctx, reader, client.ReadOptions{From: 1}), client.ErrNoJob)
	wantError(t, "label", reader.Label(ctx, label), client.ErrNoJob)
	wantError(t, "publish", reader.Publish(ctx, client.Samples{Stream: "p", X: []float32{1}}), client.ErrReadOnly)

	c, _ := connect(t, client.Options{Channels: []string{"x"}, Rows: 1, Buffer: 1, Latency: -1}) // no job stores the first sample
	if err := c.Publish(ctx, client.Samples{Stream: "p", X: []float32{1}}); err != nil {
		t.Fatal(err)
	}
	soon, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	wantError(t, "publish to a full buffer", c.Publish(soon, client.Samples{Stream: "p", X: []float32{2}}), client.ErrBufferFull, context.DeadlineExceeded)
	wantError(t, "close", c.Close(soon), context.DeadlineExceeded)
	wantError(t, "publish after close", c.Publish(ctx, client.Samples{Stream: "p", X: []float32{2}}), client.ErrClosed)
	wantError(t, "read after close", readError(ctx, c, client.ReadOptions{From: 1}), client.ErrClosed)
	wantError(t, "label after close", c.Label(ctx, label), client.ErrClosed)
}

func publish(t *testing.T, js jetstream.JetStream, subject string, data []byte) {
	t.Helper()
	m := &nats.Msg{Subject: subject, Data: data, Header: nats.Header{wire.HeaderInSeq: {"1"}, wire.HeaderOuts: {"1"}}}
	if _, err := js.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

// TestPredictions: Predictions yields stored predictions, ends with the context's
// error while following, and stops when the loop ends.
func TestPredictions(t *testing.T) {
	c, js := connect(t, client.Options{})
	ctx := t.Context()
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "EUSN-OUT", Subjects: []string{"eusn.out.*"}}); err != nil {
		t.Fatal(err)
	}
	e, err := codec.NewPredictionEncoder(codec.PredictionMeta{Labels: []string{"a", "b"}})
	if err != nil {
		t.Fatal(err)
	}
	const messages, each = 50, 3
	for m := range messages {
		data, err := e.Encode([]codec.Prediction{{Stream: "s", Seq: uint64(m)}, {Stream: "s", Seq: uint64(m)}, {Stream: "s", Seq: uint64(m)}})
		if err != nil {
			t.Fatal(err)
		}
		publish(t, js, "eusn.out.0", data)
	}
	publish(t, js, "eusn.out.0", []byte("no prediction"))
	n := 0
	for p, err := range c.Predictions(ctx, client.ReadOptions{From: 1, Stored: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if p.Message != uint64(n/each+1) || p.Index != n%each || p.Seq != uint64(n/each) || p.Class != "a" || p.Time == nil {
			t.Fatalf("prediction %d is %+v", n, p)
		}
		n++
	}
	if n != messages*each {
		t.Errorf("%d predictions, want %d", n, messages*each)
	}
	for range c.Predictions(ctx, client.ReadOptions{From: 1}) {
		break
	}
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	n, err = 0, nil
	for _, failure := range c.Predictions(short, client.ReadOptions{From: 11}) {
		if err = failure; err == nil {
			n++
		}
	}
	wantError(t, "read until the deadline", err, context.DeadlineExceeded)
	if n != (messages-10)*each {
		t.Errorf("%d predictions from message 11, want %d", n, (messages-10)*each)
	}
}
