package pipeline_test

import (
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Samples with times far from the storage of their message are counted, and the log
// reports each key once, with the probable unit. The samples are used unchanged.
func TestFarTimesOfSamples(t *testing.T) {
	t.Parallel()
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	b, book := newLoggedRig(t)
	r := b.startStage(m, quickConfig("times", 1))
	now := time.Now()
	packet := func(key string, seq uint64, times ...int64) pipelinetest.Packet {
		p := pipelinetest.One(key, seq, 2, 1, true)
		p.Batch = codec.Batch{Rows: len(times), X: make([]float32, 2*len(times)), Times: times, Ends: make([]bool, len(times))}
		return p
	}
	b.publishPackets([]pipelinetest.Packet{
		packet("right", 1, now.UnixNano(), now.Add(-23*time.Hour).UnixNano(), codec.NoTime),
		packet("ms", 1, now.UnixMilli(), now.UnixMilli()+1, now.UnixNano()), packet("ms", 2, now.UnixMilli()+2),
	})
	b.settleMessages(r, 3)
	if s := r.counters.Stats(); s.FarTimes != 3 || s.Rows != 7 || s.DeadLetters != 0 {
		t.Errorf("%d far times of %d samples, %d dead letters; want 3 of 7, 0", s.FarTimes, s.Rows, s.DeadLetters)
	}
	if n, of := book.Lines("times of samples are before 2000"), book.Lines("key=ms time=\"1970-01-01T00:"); n != 1 || of != 1 {
		t.Errorf("%d lines, %d about the key ms, want one\n%s", n, of, book)
	}
	if book.Lines("with a unit that is 1000000 times as long it is of today") != 1 {
		t.Errorf("the log does not name the unit:\n%s", book)
	}
	r.stopStage(t)
}
