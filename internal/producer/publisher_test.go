package producer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// serveStream starts a server with a NATS stream for publishers' messages.
func serveStream(t *testing.T, c jetstream.StreamConfig) *nats.Conn {
	t.Helper()
	nc, js := pipelinetest.Connect(t, pipelinetest.Server(t, natsserver.Options{}))
	c.Subjects = []string{wire.DefaultInputSubject}
	if _, err := js.CreateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return nc
}

// testSeries makes n series of two channels on k streams, of 30 to 50 samples with
// times.
func testSeries(n, k int) (list []Item) {
	for i := range n {
		rows := 30 + i%21
		it := Item{Stream: fmt.Sprint("s", i%k), X: make([]float32, 2*rows), End: true}
		for row := range rows {
			it.Times = append(it.Times, int64(i/k*100+row)*int64(time.Millisecond))
		}
		list = append(list, it)
	}
	return list
}

// A server that refuses everything causes a line a second in the publisher's log, for any
// number of streams and attempts.
func TestPublisherLogsRefusalsOnceASecond(t *testing.T) {
	t.Parallel()
	nc := serveStream(t, jetstream.StreamConfig{Name: "FULL", MaxBytes: 4 << 10, Discard: jetstream.DiscardNew})
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	book := &pipelinetest.LogBook{}
	list := testSeries(200, 60)
	began := time.Now()
	got, err := Publisher{Channels: []string{"x", "y"}, RowsPerMessage: 2, Log: book.Logger()}.Publish(ctx, nc, FromSlice(list))
	if !errors.Is(err, context.DeadlineExceeded) || got.Retries < 50 {
		t.Fatalf("%+v, %v: too few refusals to see anything", got, err)
	}
	// A line at the first refusal and a line for each whole second.
	most := 1 + int(time.Since(began)/time.Second)
	if n := book.Lines("publish failed, retrying"); n < 1 || n > most || book.Lines("refusals=") != n {
		t.Errorf("%d lines for %d refusals:\n%s", n, got.Retries, book)
	}
}

// Resuming a missing job is an error, not a first run.
func TestResumeWithoutJob(t *testing.T) {
	t.Parallel()
	nc := serveStream(t, jetstream.StreamConfig{Name: "OTHER-IN"})
	list := testSeries(2, 5)
	got, err := Publisher{Channels: []string{"x", "y"}, Resume: true, Job: "nosuch"}.Publish(t.Context(), nc, FromSlice(list))
	pipelinetest.Mentions(t, err, "nothing to resume", "NOSUCH-IN")
	if got.Messages != 0 {
		t.Errorf("%d messages published all the same", got.Messages)
	}
}

func TestPublisherPaces(t *testing.T) {
	nc := serveStream(t, jetstream.StreamConfig{Name: "ALL"})
	it := Item{Stream: "a", X: make([]float32, 2*101), End: true}
	for i := range 101 {
		it.Times = append(it.Times, int64(i)*int64(200*time.Millisecond)) // 20 s of recording
	}
	for _, c := range []struct {
		p Publisher
		i Item
	}{
		{Publisher{Speed: 100}, it},
		{Publisher{Speed: 2, Rate: 252.5}, Item{Stream: "b", X: it.X, End: true}}, // 101 samples at 505 per second
	} {
		c.p.Channels, c.p.RowsPerMessage = []string{"x", "y"}, 10
		got, err := c.p.Publish(t.Context(), nc, FromSlice([]Item{c.i}))
		// 200 ms as planned; longer only on a busy machine, so the upper bound is
		// loose: it must not be 1x (20 s).
		if err != nil || got.Elapsed < 199*time.Millisecond || got.Elapsed > 15*time.Second {
			t.Errorf("%+v took %v (%v), want about 200 ms", c.p, got.Elapsed, err)
		}
	}
	_, err := Publisher{Channels: []string{"x", "y"}, Speed: 1}.Publish(t.Context(), nc, FromSlice([]Item{{Stream: "c", X: it.X}}))
	if err == nil || !strings.Contains(err.Error(), "rate") {
		t.Errorf("pacing without times or rate: %v", err)
	}
}

func TestPublisherRefuses(t *testing.T) {
	ctx := t.Context()
	nc := serveStream(t, jetstream.StreamConfig{Name: "SMALL", MaxMsgSize: 4096})
	good := Publisher{Channels: []string{"x", "y"}}
	x := make([]float32, 4096)
	for _, c := range []struct {
		name string
		p    Publisher
		it   Item
		want string
	}{
		{"dot in name", good, Item{Stream: "a.b", X: x[:2]}, "subject token"},
		{"odd values", good, Item{Stream: "a", X: x[:3]}, "3 values of 2 channels"},
		{"times", good, Item{Stream: "a", X: x[:4], Times: []int64{1}}, "with 1 times"},
		{"too large for the NATS stream", Publisher{Channels: good.Channels, RowsPerMessage: 2048}, Item{Stream: "a", X: x}, "maximum"},
		{"speed", Publisher{Channels: good.Channels, Speed: math.NaN()}, Item{}, "speed"},
		{"subject", Publisher{Channels: good.Channels, Subject: "a.>.b"}, Item{}, "input subject"},
		{"channels", Publisher{}, Item{}, "channel"},
	} {
		_, err := c.p.Publish(ctx, nc, FromSlice([]Item{c.it}))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", c.name, err, c.want)
		}
	}
	failing := FromSlice(nil)
	if got, err := good.Publish(ctx, nc, failing); err != nil || got.Messages != 0 {
		t.Errorf("an empty source: %+v, %v", got, err)
	}
}

// forgetful is a JetStream with a client that loses the first message without an answer.
type forgetful struct {
	jetstream.JetStream
	lost bool
}

func (f *forgetful) PublishMsgAsync(m *nats.Msg, opts ...jetstream.PublishOpt) (jetstream.PubAckFuture, error) {
	if !f.lost {
		f.lost = true
		return noAnswer{}, nil
	}
	return f.JetStream.PublishMsgAsync(m, opts...)
}

type noAnswer struct{ jetstream.PubAckFuture }

func (noAnswer) Ok() <-chan *jetstream.PubAck { return nil }
func (noAnswer) Err() <-chan error            { return nil }

// A message without an answer from the client is resent.
func TestPublisherAsksAgain(t *testing.T) {
	t.Parallel()
	nc := serveStream(t, jetstream.StreamConfig{Name: "ALL"})
	list := testSeries(2, 2)
	p := Publisher{Subject: wire.DefaultInputSubject, Channels: []string{"x", "y"}, RowsPerMessage: 50, Playing: 2, Log: pipelinetest.Log(t)}
	pattern, err := p.checkOptions()
	if err != nil {
		t.Fatal(err)
	}
	loop := newLoop(p, pattern, FromSlice(list))
	if err := loop.openStreams(t.Context(), nc); err != nil {
		t.Fatal(err)
	}
	loop.lanes.js = &forgetful{JetStream: loop.lanes.js}
	ctx, cancel := context.WithTimeout(t.Context(), 2*pipelinetest.Patience)
	defer cancel()
	if err := loop.runLoop(ctx); err != nil || loop.done.Messages != 2 || loop.done.Retries != 1 {
		t.Errorf("%+v, %v", loop.done, err)
	}
}
