package owner

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// A server that removes messages during the creation of a consumer counts these
// messages as unread permanently. A partition that has read the input to the end, and
// receives nothing more, still has no lag.
func TestNothingIsUnreadAtTheEnd(t *testing.T) {
	c, all := commonOf(t, 1)
	o := all[0]
	o.isRebuilt.Store(true)
	o.Input.Came.Store(wire.Place{Seq: 500, Stored: 7})
	o.Input.unread.Store(424)
	watch, owned := NewInputWatch(c.w), map[int]*Ownership{0: o}
	look := func(last uint64, want int64) {
		t.Helper()
		info := &jetstream.StreamInfo{State: jetstream.StreamState{FirstSeq: 490, LastSeq: last}, TimeStamp: time.Unix(1, 0)}
		watch.LookBehind(t.Context(), info, owned)
		if got := o.Lag(); got != want {
			t.Fatalf("the input ends at message %d: a lag of %d, want %d", last, got, want)
		}
	}
	look(500, 424) // after one check, more messages may come
	look(500, 0)
	o.Input.Came.Store(wire.Place{Seq: 501, Stored: 8})
	o.Input.unread.Store(424)
	look(501, 424)
	look(501, 0)
}
