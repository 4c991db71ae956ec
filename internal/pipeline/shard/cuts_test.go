package shard

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// For any log (repeats, gaps, early messages, marks, late or repeated end events, more
// streams than there is room for), predictions and state do not depend on the batch
// boundaries.
func TestBatchesDoNotMatter(t *testing.T) {
	for _, policy := range []reservoir.Policy{
		{Kind: reservoir.Marked, Early: 3}, {Kind: reservoir.Count, Length: 4}, {Kind: reservoir.Window, Length: 6, Hop: 2, Early: 1},
		{Kind: reservoir.Endless, Early: 4}, {Kind: reservoir.Gap, Gap: 5 * time.Millisecond},
	} {
		m := pipelinetest.Timed(pipelinetest.Model(t, 3, policy))
		fronted := pipelinetest.Fronted(pipelinetest.Model(t, 3, policy))
		whole := 0
		for seed := range uint64(12) {
			m := []*reservoir.Model{m, fronted}[seed%2]
			room := 6 - int(seed%3)/2 // room for all keys, or for all but one
			log := drawnLog(t, rand.New(rand.NewPCG(seed, 9)))
			want, sums := cutUp(t, m, log, room, func() bool { return true })
			if len(sums) == len(log) {
				whole++
			}
			rng := rand.New(rand.NewPCG(seed, 10))
			for try := range 6 {
				got, again := cutUp(t, m, log, room, func() bool { return rng.IntN(2+2*try) == 0 })
				for i, sum := range again {
					if sum != sums[i] {
						t.Fatalf("%v, seed %d, try %d: state after message %d is %v, want %v", policy, seed, try, i+1, sum, sums[i])
					}
				}
				if !slices.Equal(got, want) {
					t.Fatalf("%v, seed %d, try %d:\n got %v\nwant %v", policy, seed, try, got, want)
				}
			}
		}
		if whole < 4 {
			t.Errorf("%v: %d of 12 logs came to their end", policy, whole)
		}
	}
}

// drawnLog returns 60 messages of six keys in one partition.
func drawnLog(t testing.TB, rng *rand.Rand) (log []pipelinetest.Packet) {
	next := map[string]uint64{}
	now := int64(1_700_000_000_000_000_000)
	for i := range 60 {
		key := fmt.Sprint("k", rng.IntN(6))
		if rng.IntN(4) == 0 {
			e := endEvent(uint64(rng.IntN(i+1)), key, fmt.Sprint("k", rng.IntN(6)))
			e.Streams[0].Forget = rng.IntN(3) == 0
			if rng.IntN(2) == 0 {
				e.Gaps = []string{key}
			}
			log = append(log, eventPacket(t, e))
			continue
		}
		p := pipelinetest.Rows(key, 0, rng.IntN(5) == 0, pipelinetest.Noise(rng, 2*(1+rng.IntN(5)))...)
		for range p.Batch.Rows {
			now += int64(1+rng.IntN(8)) * int64(time.Millisecond)
			p.Batch.Times = append(p.Batch.Times, now)
		}
		next[key] += uint64(rng.IntN(3)) // a repeat, the next, or a gap
		p.Seq = max(1, next[key])
		log = append(log, p)
	}
	return log
}

// cutUp feeds a log to a shard in batches that end where border reports true, and
// returns the predictions and the state's digest after each batch, by the number of
// messages before.
func cutUp(t testing.TB, m *reservoir.Model, log []pipelinetest.Packet, room int, border func() bool) (out []string, sums map[int]wire.Digest) {
	sums = map[int]wire.Digest{}
	l := newLone(t, m, Config{MaxStreams: room, Reorder: 2, NonFinite: codec.Hold})
	for i, p := range log {
		if err := l.takeJob(l.b, l.jobOf(p)); err != nil {
			t.Fatal(err)
		}
		if i < len(log)-1 && !border() {
			continue
		}
		if err := l.AdvanceBatch(l.b); err != nil {
			t.Fatal(err)
		}
		for _, q := range l.b.Answers[0].Preds {
			out = append(out, fmt.Sprintf("%+v", q))
		}
		l.b.Reset()
		if err := l.updateDigest(); err != nil {
			t.Fatal(err)
		}
		sums[i] = l.p.State.Sum
	}
	if len(out) == 0 {
		t.Fatal("no prediction: the log has lost its subject")
	}
	return out, sums
}
