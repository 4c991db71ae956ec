package pipeline_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Producers stop in the middle of sequences, workers are killed at any moment, end
// events are repeated and late: predictions and final states equal those of an
// undisturbed stage with the same log.
func TestIdleThroughCrashes(t *testing.T) {
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	c := quickConfig("idle", 2)
	c.Idle, c.Forget = 300*time.Millisecond, time.Hour
	rng := rand.New(rand.NewPCG(8, 1))
	const keys, rounds = 12, 4
	seqs := map[string]uint64{}
	for round := range rounds {
		r := b.startStage(m, c)
		for k := range keys {
			key := fmt.Sprint("k", k)
			for range 1 + rng.IntN(3) {
				seqs[key]++
				p := pipelinetest.One(key, seqs[key], 2, rng.Float32(), rng.IntN(4) == 0)
				if rng.IntN(9) == 0 { // never comes
					continue
				}
				b.publishPackets([]pipelinetest.Packet{p})
			}
		}
		if round < rounds-1 {
			time.Sleep(time.Duration(250+100*round) * time.Millisecond) // around the limit
			r.crashStage(t)
			b.expireMembers("idle")
			b.repeatEvents("idle")
			continue
		}
		// All sequences end, and every gap is given up.
		for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			if s := r.counters.Stats(); s.Slots == 0 && s.Lag == 0 && s.Idle > 0 {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("sequences are still open: %+v", r.counters.Stats())
			}
		}
		r.stopStage(t)
	}
	got := b.readPredictions("idle")
	sums := b.finalDigests("idle", 2)
	n := 0
	for _, ps := range got {
		for _, p := range ps {
			if p.Flags&outcome.FlagIdle != 0 {
				n++
			}
		}
	}
	if n < keys/2 {
		t.Errorf("%d sequences were ended by silence, want at least %d", n, keys/2)
	}

	// The same log, without any clock.
	b.forgetOutput("idle")
	c.Idle, c.Forget = 0, 0
	r := b.startStage(m, c)
	same(t, b.awaitPredictions("idle", count(got)), got)
	r.waitUntil(t, "all input", func(s pipeline.Stats) bool { return s.Lag == 0 })
	r.stopStage(t)
	if again := b.finalDigests("idle", 2); !slices.Equal(again, sums) {
		t.Errorf("final states %v, undisturbed %v", sums, again)
	}
}

// repeatEvents republishes every end event in the input, like a worker that wakes up
// late.
func (b *rig) repeatEvents(job string) {
	b.t.Helper()
	in, err := b.js.Stream(b.t.Context(), wire.InputStream(job))
	if err != nil {
		b.t.Fatal(err)
	}
	for seq := uint64(1); seq <= in.CachedInfo().State.LastSeq; seq++ {
		m, err := in.GetMsg(b.t.Context(), seq)
		if err != nil {
			b.t.Fatal(err)
		}
		if m.Header.Get(wire.HeaderKind) != wire.KindIdle {
			continue
		}
		key := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
		if _, err := b.js.PublishMsg(b.t.Context(), &nats.Msg{Subject: "sensors." + key, Header: m.Header, Data: m.Data}); err != nil {
			b.t.Fatal(err)
		}
	}
}
