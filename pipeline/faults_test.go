package pipeline

import (
	"context"
	"errors"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/owner"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/shard"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/store"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
	"github.com/eusn-stream/eusn-stream/pipeline/natsclient"
)

// A consumer that the server refuses is asked for again, and not for ever.
func TestConsumerRefused(t *testing.T) {
	t.Parallel()
	b := newRig(t)
	book := &pipelinetest.LogBook{}
	conns := connections{open: b.dial}
	conns.share(1, 1)
	defer conns.close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	w := &owner.Worker{Job: "none", Log: book.Logger(), Reader: conns.reader, Server: owner.Server{Snaps: &store.Snapshots{}}}
	tn := &owner.Ownership{W: w, Part: shard.NewPartition(0, 0), Shard: &shard.Shard{}, Ctx: ctx, Stop: stop}
	_, err := tn.Read()
	mentions(t, err, "consumer of partition 0", "refused 10 times")
	if n := book.Lines("trying again"); n != owner.ConsumerAttempts-1 {
		t.Errorf("%d attempts logged, want %d", n, owner.ConsumerAttempts-1)
	}
}

// What is not answered in time while starting is asked again, a few times.
func TestStartAsksAgain(t *testing.T) {
	book := &pipelinetest.LogBook{}
	r := &run{log: book.Logger()}
	late, calls := context.DeadlineExceeded, 0
	err := r.patiently(t.Context(), func() error {
		if calls++; calls < 3 {
			return late
		}
		return nil
	})
	if err != nil || calls != 3 || book.Lines("trying again") != 2 {
		t.Errorf("%d calls, %v", calls, err)
	}
	calls = 0
	if err := r.patiently(t.Context(), func() error { calls++; return late }); !errors.Is(err, late) || calls != natsclient.JetStreamAttempts {
		t.Errorf("never answered: %d calls, %v", calls, err)
	}
	calls = 0
	if err := r.patiently(t.Context(), func() error { calls++; return wire.ErrRecord }); err != wire.ErrRecord || calls != 1 {
		t.Errorf("another error: %d calls, %v", calls, err)
	}
}
