package store

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// TestFirstSince finds the first message since a time, in a log with such a message,
// and in a log emptied after its state was read.
func TestFirstSince(t *testing.T) {
	_, js := pipelinetest.Connect(t, pipelinetest.Server(t, natsserver.Options{}))
	ctx, cancel := context.WithTimeout(t.Context(), pipelinetest.Patience)
	defer cancel()
	log, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "LOG", Subjects: []string{"log"}})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := js.Publish(ctx, "log", nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Millisecond) // messages with different times
	}
	info, err := log.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	second, err := log.GetMsg(ctx, 2)
	if err != nil {
		t.Fatal(err)
	}
	since := func(at time.Time, want uint64) {
		t.Helper()
		if seq, err := FirstSince(ctx, js, info.State, "LOG", at); err != nil || seq != want {
			t.Errorf("message %d, %v, want %d", seq, err, want)
		}
	}
	since(info.State.FirstTime, 1)
	since(second.Time, 2)
	since(info.State.LastTime.Add(1), 4)
	if err := log.Purge(ctx); err != nil {
		t.Fatal(err)
	}
	since(second.Time, 4)
}

// breaking is a JetStream whose server ends after the creation of a consumer.
type breaking struct {
	jetstream.JetStream
	end func()
}

func (b breaking) CreateConsumer(ctx context.Context, stream string, c jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	defer b.end()
	return b.JetStream.CreateConsumer(ctx, stream, c)
}

func (b breaking) OrderedConsumer(ctx context.Context, stream string, c jetstream.OrderedConsumerConfig) (jetstream.Consumer, error) {
	defer b.end()
	return b.JetStream.OrderedConsumer(ctx, stream, c)
}

// TestFirstSinceEnds: without a server, FirstSince ends with its context.
func TestFirstSinceEnds(t *testing.T) {
	server := pipelinetest.Server(t, natsserver.Options{})
	_, js := pipelinetest.Connect(t, server)
	log, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "LOG", Subjects: []string{"log"}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := js.Publish(t.Context(), "log", nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Millisecond)
	}
	info, err := log.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := FirstSince(ctx, breaking{js, server.Close}, info.State, "LOG", info.State.LastTime)
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil {
			t.Error("a message without a server")
		}
	case <-time.After(pipelinetest.Patience):
		t.Error("FirstSince does not end")
	}
}
