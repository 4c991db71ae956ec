package owner

import (
	"context"
	"errors"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A partition without a connection for its consumer is deferred, and the error contains this
// once.
func TestConsumerWithoutConnection(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	w := &Worker{Job: "none", Reader: func(int) (jetstream.JetStream, error) { return nil, nats.ErrNoServers }}
	tn := &Ownership{w: w, part: shard.NewPartition(0, 0), ctx: ctx, Stop: stop}
	<-tn.followInput(nil)
	if want := nats.ErrNoServers.Error() + ": " + store.ErrLater.Error(); !errors.Is(tn.Err(), store.ErrLater) || tn.Err().Error() != want {
		t.Errorf("the partition ended with %q, want %q", tn.Err(), want)
	}
}

// A refused consumer is requested a limited number of times.
func TestConsumerRefused(t *testing.T) {
	t.Parallel()
	book := &pipelinetest.LogBook{}
	_, js := pipelinetest.Connect(t, pipelinetest.Server(t, natsserver.Options{}))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	w := &Worker{Job: "none", Log: book.Logger(), Reader: func(int) (jetstream.JetStream, error) { return js, nil }, Server: Server{In: &store.Input{Job: "none"}, Snaps: &store.Snapshots{}}}
	tn := &Ownership{w: w, part: shard.NewPartition(0, 0), shard: &shard.Shard{}, ctx: ctx, Stop: stop}
	_, err := tn.readInput(1)
	pipelinetest.Mentions(t, err, "consumer of partition 0", "refused 10 times")
	if !errors.Is(err, store.ErrLater) {
		t.Errorf("%v: the partition stops instead of being deferred", err)
	}
	if n := book.Lines("retrying"); n != consumerAttempts-1 {
		t.Errorf("%d attempts logged, want %d", n, consumerAttempts-1)
	}
}
