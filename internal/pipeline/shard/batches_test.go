package shard

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// A batch is closed after the latency budget; while the previous batch has no answer,
// after the answer or a few budgets.
func TestBatchGrows(t *testing.T) {
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	synctest.Test(t, func(t *testing.T) {
		const budget = 5 * time.Millisecond
		l := newLone(t, m, Config{Latency: budget})
		out, free := make(chan *Batch, BatchesPerShard), make(chan *Batch, BatchesPerShard)
		for range BatchesPerShard {
			free <- NewBatch(1)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- l.Run(ctx, out, free) }()
		send := func() {
			l.Queue <- l.jobOf(pipelinetest.Rows("s", 0, false, 1, 2))
			synctest.Wait()
		}
		after := func(d time.Duration, batches int) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if len(out) != batches {
				t.Fatalf("%d batches wait to be published, want %d", len(out), batches)
			}
		}
		holds := func(messages int) *Batch {
			t.Helper()
			b := <-out
			if b.messages != messages {
				t.Errorf("a batch of %d messages, want %d", b.messages, messages)
			}
			return b
		}

		send()
		after(budget-1, 0)
		after(1, 1)
		first := holds(1)
		send()
		after(2*budget, 0) // the batch grows
		send()
		free <- first
		after(0, 1)
		second := holds(2)

		send()
		after(grows*budget-1, 0)
		send()
		after(1, 1) // not for ever
		third := holds(2)
		free <- second
		send()
		after(budget, 0) // one of two batches has not returned
		free <- third
		after(0, 1)
		free <- holds(1)
		send()
		after(budget, 1) // nothing is under way
		fourth := holds(1)

		for range enough / grows { // enough messages come to wait for a full batch
			send()
		}
		after(budget, 0)
		free <- fourth
		after(0, 0)
		for range enough - enough/grows - 1 {
			send()
		}
		after(0, 0)
		send()
		after(0, 1)
		free <- holds(enough)

		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
