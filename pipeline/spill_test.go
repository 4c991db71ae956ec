package pipeline_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/operate"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/replay"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// With far fewer state rows than open sequences, with crashes, restarts and partitions
// that move: predictions and final states equal those of a stage with room for all, and
// the store holds no unnamed row.
func TestSpillSameBits(t *testing.T) {
	for name, c := range map[string]struct {
		policy reservoir.Policy
		slots  int
	}{
		"marked": {reservoir.Policy{Kind: reservoir.Marked, Early: 4}, 3},
		"one":    {reservoir.Policy{Kind: reservoir.Marked}, 1},
		"window": {reservoir.Policy{Kind: reservoir.Window, Length: 10, Hop: 2}, 4}, // less than one stream's states
		"count":  {reservoir.Policy{Kind: reservoir.Count, Length: 9}, 9},

		"marked front end": {reservoir.Policy{Kind: reservoir.Marked, Early: 4}, 3},
		"window front end": {reservoir.Policy{Kind: reservoir.Window, Length: 10, Hop: 2}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			streams := pipelinetest.Recordings(24, 60)
			packets, sent := pipelinetest.Mixed(streams, 77)
			m := pipelinetest.Timed(pipelinetest.Ranged(pipelinetest.Model(t, 3, c.policy)))
			if strings.HasSuffix(name, "front end") {
				m = pipelinetest.Fronted(m)
			}
			exp := direct(t, m, streams, sent)
			b := newRig(t)
			conf := quickConfig("spill", 3)
			shuffled := pipelinetest.Disorder(packets, rand.New(rand.NewPCG(6, 2)))
			const parts = 4
			spilled, fetched := uint64(0), uint64(0)
			for i := range parts {
				conf.Shards, conf.RowBudget, conf.MaxSlots = 1+i%2, 30*(i+1), c.slots
				if conf.StopTimeout = patience; i%2 == 0 && i < parts-1 {
					conf.StopTimeout = 300 * time.Millisecond // a crash waits for answers this long
				}
				r := b.startStage(m, conf)
				b.publishPackets(shuffled[i*len(shuffled)/parts : (i+1)*len(shuffled)/parts])
				switch {
				case i == parts-1:
					got := b.awaitPredictions("spill", count(exp))
					same(t, clean(got, outcome.FlagReordered), exp)
					r.waitUntil(t, "all input", func(s pipeline.Stats) bool { return s.Lag == 0 })
					r.stopStage(t)
				case i%2 == 0:
					time.Sleep(time.Duration(i) * 9 * time.Millisecond)
					r.crashStage(t)
					b.expireMembers("spill")
				default:
					r.stopStage(t) // the next stage begins with stored rows
				}
				s := r.counters.Stats()
				spilled, fetched = spilled+s.Spilled, fetched+s.Fetched
				if s.Slots > int64(conf.Shards*c.slots) || s.Away != 0 {
					t.Errorf("%d rows in use at the end, %d counted as stored", s.Slots, s.Away)
				}
			}
			if spilled < 20 || fetched < 20 {
				t.Fatalf("%d rows stored, %d read back: the test has lost its subject", spilled, fetched)
			}
			t.Logf("%d rows stored, %d read back", spilled, fetched)
			b.onlyNamedRows("spill", 3)
			sums := b.finalDigests("spill", 3)

			// A damaged row is detected even if unused; and exported states are
			// complete.
			check := &pipeline.Job{Config: conf, Model: m, NewEngine: pipelinetest.Generic}
			j, err := admin.Open(t.Context(), b.js, "spill")
			if err != nil {
				t.Fatal(err)
			}
			for p := range 3 {
				if v, err := replay.Verify(t.Context(), b.js, check, p); err != nil || v.Digest != sums[p] {
					t.Errorf("verify: %+v, %v", v, err)
				}
				raw, err := operate.Snapshot(t.Context(), b.js, j.Name(), p)
				if err != nil {
					t.Fatal(err)
				}
				if s, err := admin.ReadState(raw); err != nil || len(s.Streams) == 0 {
					t.Errorf("exported state: %v", err)
				}
			}

			b.forgetOutput("spill")
			conf.MaxSlots = 0
			r := b.startStage(m, conf)
			r.waitUntil(t, "all input", func(s pipeline.Stats) bool { return s.Lag == 0 && int(s.Predictions) == count(exp) })
			if s := r.counters.Stats(); s.Spilled != 0 {
				t.Errorf("%d rows stored with room for all", s.Spilled)
			}
			r.stopStage(t)
			if roomy := b.finalDigests("spill", 3); !slices.Equal(roomy, sums) {
				t.Errorf("final states %v, with room for all %v", sums, roomy)
			}
		})
	}
}

// States with stored rows move to another job and continue there, bit for bit.
func TestSpilledStatesMove(t *testing.T) {
	streams := pipelinetest.Recordings(10, 40)
	packets, sent := pipelinetest.Mixed(streams, 41)
	m := pipelinetest.Ranged(pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked}))
	exp := direct(t, m, streams, sent)
	b := newRig(t)
	c := quickConfig("old", 1)
	c.MaxSlots = 2
	r := b.startStage(m, c)
	half := len(packets) / 2
	b.publishPackets(packets[:half])
	b.settleMessages(r, half)
	r.stopStage(t)
	got := b.readPredictions("old")
	j, err := admin.Open(t.Context(), b.js, "old")
	if err != nil {
		t.Fatal(err)
	}
	if len(b.namedRows("old", 0)) == 0 {
		t.Fatal("no row is stored apart: the test has lost its subject")
	}
	raw, err := operate.Snapshot(t.Context(), b.js, j.Name(), 0)
	if err != nil {
		t.Fatal(err)
	}
	now, err := j.Status(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	heir := quickConfig("heir", 1)
	heir.InputSubject, heir.MaxSlots = "other.*", 3
	store, err := b.js.ObjectStore(t.Context(), wire.SnapshotBucket("old"))
	if err != nil {
		t.Fatal(err)
	}
	bare, err := store.GetBytes(t.Context(), now.Snapshot)
	if err != nil {
		t.Fatal(err)
	}
	mentions(t, operate.Import(t.Context(), b.js, heir, bare), "stored in other messages", "use an exported snapshot")
	_, err = admin.ReadState(bare)
	mentions(t, err, "stored in other messages")
	if err := operate.Import(t.Context(), b.js, heir, raw); err != nil {
		t.Fatal(err)
	}
	r = b.startStage(m, heir)
	for _, p := range packets[half:] {
		b.publishOn("other.", p)
	}
	for name, ps := range b.awaitPredictions("heir", count(exp)-count(got)) {
		got[name] = append(got[name], ps...)
	}
	r.stopStage(t)
	same(t, got, exp)
}

// One message may release many held messages, each of which may end a stream's sequence
// and begin the next, while slots are too few for all of their streams: the predictions
// equal those of a stage with room.
func TestSpillWithinOneMessage(t *testing.T) {
	t.Parallel()
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	rng := rand.New(rand.NewPCG(4, 1))
	var packets []pipelinetest.Packet
	for seq := range uint64(400) {
		p := pipelinetest.Packet{Key: "g", Seq: seq + 1, Header: map[string]string{}}
		for range 1 + rng.IntN(4) { // samples of few streams with short sequences
			k := rng.IntN(6)
			p.Batch.Rows++
			p.Batch.X = append(p.Batch.X, pipelinetest.Noise(rng, 2)...)
			p.Batch.Keys, p.Batch.Key = append(p.Batch.Keys, fmt.Sprint("s", k)), append(p.Batch.Key, int32(len(p.Batch.Key)))
			p.Batch.Ends = append(p.Batch.Ends, rng.IntN(2) == 0)
		}
		packets = append(packets, joinKeys(p))
	}
	for i := 0; i+8 <= len(packets); i += 8 { // the first of eight comes last, and brings seven
		first := packets[i]
		copy(packets[i:i+7], packets[i+1:i+8])
		packets[i+7] = first
	}
	run := func(job string, slots int) map[string][]codec.Prediction {
		c := quickConfig(job, 1)
		c.MaxSlots, c.Latency, c.InputSubject = slots, 50*time.Millisecond, job+".*"
		r := b.startStage(m, c)
		for _, p := range packets {
			b.publishOn(job+".", p)
		}
		r.waitUntil(t, "all input", func(s pipeline.Stats) bool { return s.Messages == uint64(len(packets)) && s.Lag == 0 })
		if slots > 0 && r.counters.Stats().Fetched < 20 {
			t.Fatal("hardly any row was stored apart: the test has lost its subject")
		}
		r.stopStage(t)
		return b.readPredictions(job)
	}
	same(t, run("few", 2), run("room", 0))
}

// joinKeys gives all streams of a message one key.
func joinKeys(p pipelinetest.Packet) pipelinetest.Packet {
	var keys []string
	for i, k := range p.Batch.Key {
		id := p.Batch.Keys[k]
		at := slices.Index(keys, id)
		if at < 0 {
			at, keys = len(keys), append(keys, id)
		}
		p.Batch.Key[i] = int32(at)
	}
	p.Batch.Keys = keys
	return p
}
