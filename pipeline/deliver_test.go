package pipeline_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/producer"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Stopped in the middle and restarted, with other shards and batches, the stage
// publishes the predictions of an uninterrupted run: nothing twice, nothing lost, every
// bit equal.
func TestRestart(t *testing.T) {
	for name, policy := range map[string]reservoir.Policy{
		"marked": {Kind: reservoir.Marked, Early: 3},
		"window": {Kind: reservoir.Window, Length: 10, Hop: 2},
		"gap":    {Kind: reservoir.Gap, Gap: 5 * time.Millisecond},

		"decided":  {Kind: reservoir.Marked, Early: 3},
		"abstains": {Kind: reservoir.Marked, Early: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			streams := pipelinetest.Recordings(30, 80)
			packets, sent := pipelinetest.Mixed(streams, 8)
			m := pipelinetest.Model(t, 3, policy)
			if name == "decided" {
				pipelinetest.Deciding(m.Readouts[0])
			}
			if name == "abstains" {
				pipelinetest.Abstaining(m.Readouts[0])
			}
			b := newRig(t)
			c := pipeline.Config{Job: "again", Partitions: 6, Shards: 2, RowBudget: 40}
			at := 0
			for i, share := range []int{3, 2, 1} {
				c.Shards, c.RowBudget = 1+i, 20+100*i
				r := b.startStage(m, c)
				to := at + (len(packets)-at)/share
				b.publishPackets(packets[at:to])
				// Stop in the middle, not at the end: pending work must neither be lost
				// nor published twice.
				if share > 1 {
					r.waitUntil(t, "some predictions", func(s pipeline.Stats) bool { return s.Predictions > 5 })
				} else {
					b.settleMessages(r, len(packets))
				}
				if s := r.counters.Stats(); i > 0 && s.Replayed != 0 {
					t.Errorf("%d messages replayed after a stop in order", s.Replayed)
				}
				r.stopStage(t)
				at = to
			}
			want := direct(t, m, streams, sent)
			if early, decided := countFlagged(want, outcome.FlagEarly), countFlagged(want, outcome.FlagDecided); name == "decided" && (decided == 0 || decided == early) {
				t.Fatalf("%d of %d early predictions are decided, want some", decided, early)
			}
			all, abstain := countFlagged(want, 0), countFlagged(want, outcome.FlagAbstain)
			if name == "abstains" && (abstain == 0 || abstain == all) {
				t.Fatalf("%d of %d predictions abstain, want some", abstain, all)
			}
			same(t, b.readPredictions("again"), want)
		})
	}
}

// countFlagged counts the predictions with a flag; 0: all.
func countFlagged(all map[string][]codec.Prediction, f outcome.Flag) (n int) {
	for _, ps := range all {
		for _, p := range ps {
			if p.Flags&f == f {
				n++
			}
		}
	}
	return n
}

// Whatever was published survives the server too.
func TestServerRestartUnderStage(t *testing.T) {
	streams := pipelinetest.Recordings(10, 60)
	packets, sent := pipelinetest.Mixed(streams, 4)
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	dir := t.TempDir()
	b := newRigAt(t, dir)
	b.answerPackets(m, pipeline.Config{Job: "srv", Partitions: 3}, packets[:len(packets)/2], len(packets)/2)
	b.nc.Close()
	b.srv.Close()
	b = newRigAt(t, dir)
	b.answerPackets(m, pipeline.Config{Job: "srv", Partitions: 3}, packets[len(packets)/2:], len(packets))
	same(t, b.readPredictions("srv"), direct(t, m, streams, sent))
}

// After an orderly stop the states are in snapshots and need no input.
func TestRestartWithoutHistory(t *testing.T) {
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	c := pipeline.Config{Job: "cut", Partitions: 1}
	b.answerPackets(m, c, []pipelinetest.Packet{pipelinetest.One("a", 1, 3, 1, true), pipelinetest.One("a", 2, 3, 1, false), pipelinetest.One("n", 0, 1, 1, true)}, 3)
	in, err := b.js.Stream(t.Context(), wire.InputStream("cut"))
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.answerPackets(m, c, []pipelinetest.Packet{pipelinetest.One("a", 3, 1, 1, true), pipelinetest.One("a", 4, 1, 1, true), pipelinetest.One("new", 1, 1, 1, true), pipelinetest.One("n", 0, 1, 1, true)}, 4)
	got := b.readPredictions("cut")
	for k, want := range map[string]string{"a": "1.2: 3.0: 4.0:", "new": "1.0:", "n": "0.0: 0.0:"} {
		if g := flags(got[k]); g != want {
			t.Errorf("stream %s: %q, want %q", k, g, want)
		}
	}
	exp := predictAlone(t, m, codec.Reject, pipelinetest.One("a", 1, 4, 1, true))[0]
	if !sameBits(got["a"][1].Scores, exp.Scores) {
		t.Error("the open sequence's state did not survive")
	}
}

// After a loss of unread messages at the input's beginning, a job flags possibly
// incomplete predictions.
func TestInputBeginsLate(t *testing.T) {
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	c := pipeline.Config{Job: "late", Partitions: 1}
	b.startStage(m, c).stopStage(t)
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One("n", 0, 1, 1, true)})
	in, err := b.js.Stream(t.Context(), wire.InputStream("late"))
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.answerPackets(m, c, []pipelinetest.Packet{pipelinetest.One("new", 1, 1, 1, true), pipelinetest.One("n", 0, 1, 1, true), pipelinetest.One("n", 0, 1, 1, true)}, 3)
	got := b.readPredictions("late")
	if n, w := flags(got["n"]), flags(got["new"]); n != "0.0:gap 0.0:" || w != "1.0:" {
		t.Errorf("predictions %q and %q", n, w)
	}
}

// Messages of many streams, with interleaved rows, give the same predictions as
// separate messages per stream.
func TestMultiStreamMessages(t *testing.T) {
	streams := pipelinetest.Recordings(9, 60)
	for _, policy := range []reservoir.Policy{{Kind: reservoir.Marked, Early: 7}, {Kind: reservoir.Gap, Gap: 5 * time.Millisecond}, {Kind: reservoir.Window, Length: 6, Hop: 3}} {
		m := pipelinetest.Model(t, 3, policy)
		b := newRig(t)
		r := b.startStage(m, pipeline.Config{Job: "multi", Partitions: 3})
		rng := rand.New(rand.NewPCG(6, 6))
		var packets []pipelinetest.Packet
		places := map[string][]pipelinetest.Packet{} // one per row, to record its destination
		at := make([]int, len(streams))
		for left := true; left; {
			p := pipelinetest.Packet{Key: "gateway", Seq: uint64(len(packets) + 1)}
			index := map[string]int32{}
			left = false
			for range 40 {
				i := rng.IntN(len(streams))
				s := &streams[i]
				if at[i] == len(s.Times) {
					continue
				}
				k, ok := index[s.Name]
				if !ok {
					k = int32(len(index))
					index[s.Name] = k
					p.Batch.Keys = append(p.Batch.Keys, s.Name)
				}
				p.Batch.Key = append(p.Batch.Key, k)
				p.Batch.X = append(p.Batch.X, s.X[2*at[i]:2*at[i]+2]...)
				p.Batch.Times = append(p.Batch.Times, s.Times[at[i]])
				p.Batch.Ends = append(p.Batch.Ends, s.Ends[at[i]])
				places[s.Name] = append(places[s.Name], pipelinetest.Packet{Seq: p.Seq, Batch: codec.Batch{Rows: p.Batch.Rows + 1}})
				p.Batch.Rows++
				at[i]++
			}
			for i := range streams {
				left = left || at[i] < len(streams[i].Times)
			}
			if p.Batch.Rows > 0 {
				packets = append(packets, p)
			}
		}
		b.publishPackets(packets)
		b.settleMessages(r, len(packets))
		r.stopStage(t)
		exp := direct(t, m, streams, nil)
		for name, ps := range exp { // direct cannot know the positions
			for i := range ps {
				row := slices.Index(streams[indexOfStream(t, streams, name)].Times, ps[i].Time)
				ps[i].Seq, ps[i].Row = places[name][row].Seq, uint32(places[name][row].Batch.Rows-1)
			}
		}
		same(t, b.readPredictions("multi"), exp)
	}
}

func indexOfStream(t *testing.T, streams []pipelinetest.Recording, name string) int {
	t.Helper()
	i := slices.IndexFunc(streams, func(r pipelinetest.Recording) bool { return r.Name == name })
	if i < 0 {
		t.Fatalf("no stream %s", name)
	}
	return i
}

// A full input pushes back to the publisher, and nothing stored is lost.
func TestInputFull(t *testing.T) {
	b := newRig(t)
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	r := b.startStage(m, pipeline.Config{Job: "full", Partitions: 1, InputMaxBytes: 64 << 10})
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	got, err := producer.Publisher{Channels: m.Channels}.Publish(ctx, b.nc, producer.FromSlice([]producer.Item{{Stream: "a", X: make([]float32, 1<<16), End: true}}))
	if !errors.Is(err, context.DeadlineExceeded) || got.Retries == 0 || got.Messages == 0 {
		t.Fatalf("publishing 512 kB into 64 kB: %+v, %v", got, err)
	}
	if s := b.settleMessages(r, int(got.Messages)); s.Rows != got.Rows || s.Gaps != 0 {
		t.Errorf("published %+v, stage saw %+v", got, s)
	}
	r.stopStage(t)
}
