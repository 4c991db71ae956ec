package owner

import (
	"testing"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Published predictions and their position always agree: after any cut of the answers,
// skipping "ahead" predictions after "inSeq" leaves exactly the unpublished
// predictions.
func TestAdvanceTo(t *testing.T) {
	a := &shard.Answer{InSeq: 30, Predictions: state.Predictions{Preds: make([]codec.Prediction, 9), At: []uint64{12, 12, 15, 15, 15, 15, 20, 21, 21}}}
	start := wire.Position{InSeq: 11, Ahead: 2, Outs: 100} // two of message 12's four went out before
	for first := 1; first <= len(a.At); first++ {
		for second := first + 1; second <= len(a.At); second++ {
			p := advanceTo(start, a, 0, first)
			checkSplit(t, a, p, first)
			p = advanceTo(p, a, first, second)
			checkSplit(t, a, p, second)
		}
	}
}

// A record in the middle of a split commit names the last input message that its
// predictions depend on; a record at the end has the message's digest.
func TestAdvanceRests(t *testing.T) {
	a := &shard.Answer{InSeq: 30, InTime: 300, Predictions: state.Predictions{Preds: make([]codec.Prediction, 3), At: []uint64{12, 12, 15}, Stored: []int64{120, 120, 150}}}
	c := &store.Committer{}
	for i, want := range []wire.Place{{Seq: 12, Stored: 120}, {Seq: 12, Stored: 120}, {}} {
		c.Record = recordAfter(c.Record, a, i, i+1, nil, 0)
		if c.Record.Rests != want {
			t.Errorf("after %d of 3: rests on %+v, want %+v", i+1, c.Record.Rests, want)
		}
	}
	if c.Record.Mark.Seq != 30 || c.Record.Mark.Time != 300 {
		t.Errorf("at the end: mark %+v", c.Record.Mark)
	}
}

func checkSplit(t *testing.T, a *shard.Answer, p wire.Position, published int) {
	t.Helper()
	var beyond uint64 // published predictions of messages after p.inSeq
	for _, at := range a.At[:published] {
		if at > p.InSeq {
			beyond++
		}
	}
	if p.InSeq == 11 {
		beyond += 2
	}
	for _, at := range a.At[published:] {
		if at <= p.InSeq {
			t.Fatalf("after %d: %+v claims message %d, which has more to say", published, p, at)
		}
	}
	if p.Ahead != beyond || p.Outs != 100+uint64(published) {
		t.Fatalf("after %d: %+v, want ahead %d", published, p, beyond)
	}
	if published == len(a.At) && p.InSeq != a.InSeq {
		t.Fatalf("after all: %+v, want input %d", p, a.InSeq)
	}
}

func TestBoundary(t *testing.T) {
	at := []uint64{1, 1, 2, 3, 3, 3}
	for _, c := range [][3]int{{0, 1, 1}, {0, 2, 2}, {0, 3, 3}, {0, 4, 3}, {0, 5, 3}, {3, 4, 4}, {3, 5, 5}, {0, 6, 6}, {2, 5, 3}} {
		if got := findBoundary(at, c[0], c[1]); got != c[2] {
			t.Errorf("boundary of [%d,%d) = %d, want %d", c[0], c[1], got, c[2])
		}
	}
}
