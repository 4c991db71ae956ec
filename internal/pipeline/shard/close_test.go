package shard

import (
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Messages for a partition given up by the shard are dropped: a consumer is not waited
// for, and may bring a message late.
func TestNothingFollowsAClose(t *testing.T) {
	l := newLone(t, pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked}), Config{})
	l.feedAll(pipelinetest.Rows("s", 1, false, 1, 1))
	l.dropPartition(l.p)
	l.b.Reset()
	for _, j := range []Job{l.jobOf(pipelinetest.Rows("s", 2, true, 1, 1)), {Part: l.p, Order: OrderTick}} {
		if err := l.takeMessage(l.b, j); err != nil {
			t.Fatal(err)
		}
	}
	if l.b.messages != 2 || len(l.b.Touched) != 0 || len(l.b.runs) != 0 {
		t.Errorf("%d messages taken, want 2; %d answers and %d runs, want none", l.b.messages, len(l.b.Touched), len(l.b.runs))
	}
}
