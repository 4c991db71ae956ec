package pipeline

import (
	"testing"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// What reaches a shard of a partition it has given up is dropped: a consumer
// is not waited for, and may bring a message late.
func TestNothingFollowsAClose(t *testing.T) {
	l := newLone(t, testModel(t, 2, reservoir.Policy{Kind: reservoir.Marked}), Config{})
	l.feedAll(rows("s", 1, false, 1, 1))
	l.drop(l.p)
	l.b.reset()
	for _, j := range []job{l.job(rows("s", 2, true, 1, 1)), {part: l.p, order: orderTick}} {
		if err := l.take(l.b, j); err != nil {
			t.Fatal(err)
		}
	}
	if l.b.messages != 2 || len(l.b.touched) != 0 || len(l.b.runs) != 0 {
		t.Errorf("%d messages taken, want 2; %d answers and %d runs, want none", l.b.messages, len(l.b.touched), len(l.b.runs))
	}
}
