package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// Simultaneous first workers of a job each miss a part of the job: the second worker
// uses the existing part.
func TestManyBeginAtOnce(t *testing.T) {
	b := newRig(t)
	const workers, rounds = 6, 5
	var clients []jetstream.JetStream
	for i := range workers {
		nc, err := b.srv.Connect(fmt.Sprint("worker ", i), nil)
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, pipelinetest.JetStream(t, nc))
	}
	for round := range rounds {
		c := pipeline.Config{Job: fmt.Sprint("job", round), InputSubject: fmt.Sprintf("in%d.*", round)}.WithDefaults()
		begin := make(chan struct{})
		var wg sync.WaitGroup
		for i, js := range clients {
			wg.Go(func() {
				<-begin
				if err := beginAll(t.Context(), js, c, b, fmt.Sprint("worker-", i)); err != nil {
					t.Errorf("round %d, worker %d: %v", round, i, err)
				}
			})
		}
		close(begin)
		wg.Wait()
	}
}

func beginAll(ctx context.Context, js jetstream.JetStream, c pipeline.Config, b *rig, name string) error {
	err := store.EnsureStreams(ctx, js, c.Layout(), b.log)
	_, snaps := store.OpenSnapshots(ctx, js, c.Job, c.Replicas)
	members := pipeline.OpenMembers(ctx, js, c, name)
	return errors.Join(err, snaps, members)
}
