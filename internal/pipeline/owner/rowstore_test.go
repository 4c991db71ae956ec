package owner

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// away is a NATS stream of a server without answers.
type away struct{ jetstream.Stream }

// An ownership with a lost row checks for a new owner, and a stop waits for the answer
// no longer than for other requests.
func TestStopDoesNotWaitForTheOvertaken(t *testing.T) {
	t.Parallel()
	last, over := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer over()
	lost := fmt.Errorf("row 1: %w", store.ErrRow)
	var sh shard.Shard
	sh.StoreRows(nil, last)
	tn := &Ownership{
		w: &Worker{Shards: t.Context()}, shard: &sh, Stop: func() {},
		c: &store.Committer{Stream: away{}, Job: "x", Last: 1},
	}
	tn.Fail(lost)
	ended := make(chan struct{})
	go func() { tn.explainLostRow(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(pipelinetest.Patience):
		t.Fatal("it waits for a server that does not answer")
	}
	if err := tn.Err(); !errors.Is(err, store.ErrRow) {
		t.Errorf("the reason is now %v", err)
	}
}

func (away) GetLastMsgForSubject(ctx context.Context, _ string) (*jetstream.RawStreamMsg, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
