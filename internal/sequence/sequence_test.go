package sequence

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/testing/sequencetest"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// replay feeds the samples in pieces and tracks each state, checks that runs join without
// a gap, and returns the predictions.
func replay(t *testing.T, p reservoir.Policy, times []int64, ends []bool, last bool, pieces []int) []sequencetest.Span {
	t.Helper()
	var q Sequencer
	var out []sequencetest.Span
	type state struct{ from, to int }
	states := make([]state, p.States())
	at := 0
	for i, count := range pieces {
		s := Samples{Count: count, Times: times[at : at+count], Ends: ends[at : at+count], EndAfter: last && i == len(pieces)-1}
		for _, c := range q.Cut(nil, &p, s) {
			st := &states[c.Phase]
			if c.Reset {
				*st = state{at + int(c.From), at + int(c.From)}
			}
			if at+int(c.From) != st.to {
				t.Fatalf("policy %+v pieces %v: phase %d continues at %d, its state is at %d", p, pieces, c.Phase, at+int(c.From), st.to)
			}
			if c.Age != int64(st.to-st.from) {
				t.Fatalf("policy %+v pieces %v: phase %d at %d has age %d, its state began at %d", p, pieces, c.Phase, st.to, c.Age, st.from)
			}
			st.to = at + int(c.To)
			if c.Emit {
				out = append(out, sequencetest.Span{From: st.from, To: st.to, End: c.End})
			}
		}
		at += count
	}
	return out
}

// Any split of the samples into messages gives the predictions of the definition, in the
// order of time.
func TestSequencerSplitInvariance(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	policies := []reservoir.Policy{
		{Kind: reservoir.Marked}, {Kind: reservoir.Marked, Early: 3},
		{Kind: reservoir.Count, Length: 1}, {Kind: reservoir.Count, Length: 7}, {Kind: reservoir.Count, Length: 6, Early: 2},
		{Kind: reservoir.Gap, Gap: 5}, {Kind: reservoir.Gap, Gap: 5, Early: 4},
		{Kind: reservoir.Window, Length: 8, Hop: 8}, {Kind: reservoir.Window, Length: 8, Hop: 2},
		{Kind: reservoir.Window, Length: 6, Hop: 1, Early: 4}, {Kind: reservoir.Window, Length: 12, Hop: 3, Early: 2},
		{Kind: reservoir.Endless, Early: 5},
	}
	total := 0
	for _, p := range policies {
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		for trial := range 60 {
			n := rng.IntN(70)
			times, ends := make([]int64, n), make([]bool, n)
			now := int64(0)
			for i := range n {
				now += 1 + rng.Int64N(7) // a silence of more than 5 about one time in seven
				times[i], ends[i] = now, rng.IntN(6) == 0
			}
			last := rng.IntN(2) == 0
			exp := sequencetest.Spans(p, times, ends, last)
			for range 4 {
				if got := replay(t, p, times, ends, last, split(rng, n, !last)); !slices.Equal(got, exp) {
					t.Fatalf("policy %+v trial %d, %d samples:\n got %v\nwant %v", p, trial, n, got, exp)
				}
			}
			total += len(exp)
		}
	}
	if total < 1000 {
		t.Fatalf("only %d predictions compared: the test has lost its subject", total)
	}
}

// split splits a count of n into random pieces, including empty pieces; the last piece is
// empty only if emptyEnd is true, since an end mark belongs to the last sample.
func split(rng *rand.Rand, n int, emptyEnd bool) []int {
	var pieces []int
	for n > 0 {
		k := min(n, rng.IntN(9))
		pieces, n = append(pieces, k), n-k
	}
	if emptyEnd && rng.IntN(2) == 0 {
		pieces = append(pieces, 0)
	}
	if len(pieces) == 0 {
		pieces = []int{0}
	}
	return pieces
}

func TestSequencerEndWithoutRows(t *testing.T) {
	p := reservoir.Policy{Kind: reservoir.Marked}
	var q Sequencer
	if got := q.Cut(nil, &p, Samples{EndAfter: true}); len(got) != 0 {
		t.Fatalf("an end before any sample gave %v, want nothing", got)
	}
	q.Cut(nil, &p, Samples{Count: 3})
	got := fmt.Sprintf("%+v", q.Cut(nil, &p, Samples{EndAfter: true}))
	if got != "[{Phase:0 From:0 To:0 Age:3 Reset:false Emit:true End:true}]" || q.Open() {
		t.Fatalf("an end after samples gave %s, open %v", got, q.Open())
	}
}

func TestSequencerClosesBeforeCountsOverflow(t *testing.T) {
	p := reservoir.Policy{Kind: reservoir.Endless, Early: 1 << 30}
	q := Sequencer{N: Max - 1}
	cuts := q.Cut(nil, &p, Samples{Count: 2})
	if len(cuts) != 2 || !cuts[0].End || !cuts[1].Reset || q.N != 1 {
		t.Fatalf("at the limit: %+v, n = %d; want an end and a new sequence", cuts, q.N)
	}
}

func TestLonger(t *testing.T) {
	const lo, hi = -1 << 63, 1<<63 - 1
	for _, c := range []struct {
		now, before int64
		want        bool
	}{{10, 5, false}, {11, 5, true}, {5, 11, false}, {hi, lo, true}, {lo, hi, false}, {0, lo, true}} {
		if got := isLonger(c.now, c.before, 5*time.Nanosecond); got != c.want {
			t.Errorf("longer(%d, %d, 5ns) = %v, want %v", c.now, c.before, got, c.want)
		}
	}
}
