package shard

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Messages that fit separately also fit in one batch: rows of ended sequences serve new
// sequences, with the same bits.
func TestSlotsWithinABatch(t *testing.T) {
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	tight, wide := newLone(t, m, Config{MaxSlots: 3}), newLone(t, m, Config{})
	for i := range 12 {
		p := pipelinetest.Rows(fmt.Sprint("k", i%7), 0, i%7 != 2, float32(i), 1, 2, float32(-i))
		for _, l := range []*lone{tight, wide} {
			if err := l.takeJob(l.b, l.jobOf(p)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, l := range []*lone{tight, wide} {
		if err := l.AdvanceBatch(l.b); err != nil {
			t.Fatal(err)
		}
	}
	got, exp := tight.b.Answers[0].Preds, wide.b.Answers[0].Preds
	if len(exp) != 10 || !reflect.DeepEqual(got, exp) {
		t.Errorf("%d predictions, want 10:\n got %+v\nwant %+v", len(exp), got, exp)
	}
	if tight.pool.usedSlots() != 1 || tight.pool.engine.Slots() != 3 {
		t.Errorf("%d of %d slots in use, want 1 of 3", tight.pool.usedSlots(), tight.pool.engine.Slots())
	}
}

// Messages without rows on ever new keys leave no more state than MaxStreams allows,
// even if every stream is in the middle of a sequence.
func TestRowlessKeysAreBounded(t *testing.T) {
	for _, open := range []int{0, 5} {
		l := newLone(t, pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked}), Config{MaxStreams: 5})
		for i := range open {
			l.feedAll(pipelinetest.Rows(fmt.Sprint("open", i), 1, false, 1, 1))
		}
		for i := range 500 {
			l.feedAll(pipelinetest.Rows(fmt.Sprint("k", i), 1, i%2 == 0))
			if err := l.updateDigest(); err != nil {
				t.Fatal(err)
			}
		}
		if len(l.p.State.Sources) != 5 || l.p.State.Len() != 5 {
			t.Errorf("%d open: %d keys, %d streams remembered", open, len(l.p.State.Sources), l.p.State.Len())
		}
		for i := range open {
			if got := l.feedAll(pipelinetest.Rows(fmt.Sprint("open", i), 2, true, 1, 1)); len(got) != 1 || got[0].Flags != 0 {
				t.Errorf("open sequence %d: %+v", i, got)
			}
		}
	}
}

// An end mark has two words and two digits, in any case.
func TestEndWords(t *testing.T) {
	for word, end := range map[string]bool{"true": true, "TRUE": true, "1": true, "false": false, "False": false, "0": false, "": false} {
		l := newLone(t, pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked}), Config{})
		if got := l.feedAll(pipelinetest.One("a", 1, 1, 1, false).With(wire.HeaderEnd, word)); (len(got) == 1) != end {
			t.Errorf("%s %q: %d predictions", wire.HeaderEnd, word, len(got))
		}
	}
}

// A flood of new names affects no stream in use: neither its sequence nor its numbers,
// even between two sequences.
func TestNewNamesDisplaceEachOther(t *testing.T) {
	l := newLone(t, pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Count, Length: 4}), Config{MaxStreams: 300})
	const machines, rounds, flood = 20, 12, 150
	names, predicted := 0, 0
	for round := range rounds {
		for i := range machines {
			for _, p := range l.feedAll(pipelinetest.Rows(fmt.Sprint("machine", i), uint64(round+1), false, 1, float32(i))) {
				if predicted++; p.Flags != 0 {
					t.Fatalf("machine %d, round %d: %+v", i, round, p)
				}
			}
		}
		for range flood {
			l.feedAll(pipelinetest.Rows(fmt.Sprint("flood", names), 1, false, 1, 1))
			names++
		}
	}
	for i := range machines {
		if src := l.p.State.Sources[fmt.Sprint("machine", i)]; src == nil || src.Last != rounds {
			t.Errorf("machine %d is forgotten", i)
		}
	}
	if streams, abandoned := l.p.State.Len(), l.counters.Abandoned.Load(); streams != 300 || predicted == 0 || abandoned != rounds*flood-(300-machines) {
		t.Errorf("%d predictions, %d streams, %d sequences abandoned", predicted, streams, abandoned)
	}
}

// TestNewNamesWithinABatch checks that a batch of new streams does not take a slot for each stream:
// forgotten streams free their slots before the pool grows. The states are the states of batches of
// one message each.
func TestNewNamesWithinABatch(t *testing.T) {
	const room, flood = 1200, 12_000
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Count, Length: 4})
	whole, single := newLone(t, m, Config{MaxStreams: room}), newLone(t, m, Config{MaxStreams: room})
	for i := range flood {
		p := pipelinetest.Rows(fmt.Sprint("flood", i), 1, false, 1, float32(i))
		if err := whole.takeJob(whole.b, whole.jobOf(p)); err != nil {
			t.Fatal(err)
		}
		single.feedAll(p)
	}
	if err := whole.AdvanceBatch(whole.b); err != nil {
		t.Fatal(err)
	}
	if slots, used := whole.pool.engine.Slots(), whole.pool.usedSlots(); used != room || slots > 2*room {
		t.Errorf("%d slots, %d in use, for %d streams", slots, used, room)
	}
	got, err := whole.encodeState()
	if err != nil {
		t.Fatal(err)
	}
	want, err := single.encodeState()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("the states differ from the states of batches of one message each")
	}
}

// Messages under keys that are not listed become dead letters, and leave no state.
func TestKeysAreListed(t *testing.T) {
	keys, err := names.ParsePatterns("pump*")
	if err != nil {
		t.Fatal(err)
	}
	l := newLone(t, pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked}), Config{Keys: keys})
	for _, key := range []string{"pump1", "evil", "xpump"} {
		if err := l.takeJob(l.b, l.jobOf(pipelinetest.Rows(key, 1, false, 1, 1))); err != nil {
			t.Fatal(err)
		}
	}
	if len(l.b.Dead) != 2 || l.b.Dead[0].Why != wire.ReasonKey || len(l.p.State.Sources) != 1 || l.p.State.Sources["pump1"] == nil {
		t.Errorf("%d dead letters, %d keys", len(l.b.Dead), len(l.p.State.Sources))
	}
}
