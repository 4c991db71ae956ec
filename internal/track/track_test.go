package track

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/sequence"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// rulesOf returns rules that use every part of a track.
func rulesOf(p reservoir.Policy, hold bool) Rules {
	return Rules{
		Policy: p, Channels: 2, Mean: []float32{.25, 100}, Hold: hold,
		Training: reservoir.Training{
			Rate: 2e8, LongestInterval: 5, Inputs: []reservoir.InputRange{{Values: 9, Max: 1, LongestRun: 4}, {Values: 9, Max: 100, LongestRun: 4}},
		},
		RateTolerance: .05,
	}
}

// prediction is the result of a piece that emits.
type prediction struct {
	at      int // samples of the stream
	samples int64
	flags   outcome.Flag
	time    int64
	began   int64
	rows    string // the network's input of the sequence
	means   string // Statistics
}

// stream is a random stream of two channels, with missing values, values out of range and
// runs of equal values.
type stream struct {
	x     []float32
	times []int64
	ends  []bool
	flags []outcome.Flag
}

func randomStream(rng *rand.Rand, n int) (s stream) {
	now := int64(0)
	for range n {
		now += 1 + rng.Int64N(7)
		x := [2]float32{rng.Float32(), 100 * rng.Float32()}
		for c := range x {
			switch rng.IntN(12) {
			case 0:
				x[c] = float32(math.NaN())
			case 1:
				x[c] = 1e4
			case 2, 3, 4, 5:
				x[c] = .5
			}
		}
		s.x, s.times, s.ends = append(s.x, x[:]...), append(s.times, now), append(s.ends, rng.IntN(8) == 0)
		s.flags = append(s.flags, []outcome.Flag{0, 0, 0, 0, outcome.FlagGap}[rng.IntN(5)])
	}
	return s
}

// predictions feeds a stream in pieces. Events before a sample are passed with the sample
// or, if the sample is the first of its piece and since is set, as Track.Since.
func (s *stream) predictions(t *Tracker, pieces []int, since bool) (all []prediction) {
	tr := t.NewTrack(true)
	rows := make([][]float32, t.Policy.States())
	at := 0
	for _, n := range pieces {
		in := Samples{Samples: sequence.Samples{Count: n, Times: s.times[at : at+n], Ends: s.ends[at : at+n]}, X: slices.Clone(s.x[2*at : 2*(at+n)])}
		if flags := s.flags[at : at+n]; since && n > 0 {
			tr.Since |= flags[0]
		} else {
			in.Flags = flags
		}
		in.Missing = AppendMissing(nil, in.X)
		got, left := t.Feed(&tr, in)
		for _, p := range got {
			if p.Reset {
				rows[p.Phase] = nil
			}
			rows[p.Phase] = append(rows[p.Phase], in.X[2*p.RowFrom:2*p.RowTo]...)
			if p.RowTo > int32(left) {
				panic("a piece has rows that the front end has not made")
			}
			if p.Emit {
				all = append(all, prediction{at + int(p.To), p.Samples(), p.Flags, p.Time, t.Began(&tr, &p), fmt.Sprint(rows[p.Phase]), fmt.Sprint(p.Statistics)})
			}
		}
		at += n
	}
	return all
}

var policies = []reservoir.Policy{
	{Kind: reservoir.Marked}, {Kind: reservoir.Marked, Early: 3}, {Kind: reservoir.Count, Length: 8, Early: 3}, {Kind: reservoir.Gap, Gap: 5 * time.Nanosecond, Early: 4},
	{Kind: reservoir.Window, Length: 12, Hop: 4, Early: 3}, {Kind: reservoir.Endless, Early: 5},
}

// Predictions do not depend on the split of samples into messages. The flags of events
// before a sample are the same, whether a message begins with the sample (as in the live
// stage) or not (as offline).
func TestSplitInvariance(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	seen := outcome.Flag(0)
	for _, p := range policies {
		for trial := range 80 {
			r := rulesOf(p, trial%2 == 0)
			if trial%3 == 0 {
				r.Front = &reservoir.Front{Normalize: 5, Decimate: 4, Means: []int{2, 7}}
			}
			if trial%5 == 0 { // the reach leaves out some samples
				r.Front = &reservoir.Front{Regimes: &reservoir.Regimes{
					Settings: []int{0}, Mean: []float64{1}, Scale: []float64{2}, Centers: [][]float64{{-1}, {1}}, Reach: []float64{1.5, .25},
					Means: [][]float32{{0, 1}, {0, 2}}, Scales: [][]float32{{0, 3}, {0, .5}},
				}}
			}
			n := rng.IntN(70)
			s := randomStream(rng, n)
			want := s.predictions(NewTracker(r), []int{n}, false)
			ones := slices.Repeat([]int{1}, n)
			var some []int
			for left := n; left > 0; {
				k := min(left, rng.IntN(9))
				some, left = append(some, k), left-k
			}
			for name, got := range map[string][]prediction{
				"in pieces": s.predictions(NewTracker(r), some, false), "one by one": s.predictions(NewTracker(r), ones, true),
			} {
				if !slices.Equal(got, want) {
					t.Fatalf("policy %+v, %s:\n got %+v\nwant %+v", p, name, got, want)
				}
			}
			for _, one := range want {
				seen |= one.flags
			}
		}
	}
	for _, f := range []outcome.Flag{outcome.FlagGap, outcome.FlagHeld, outcome.FlagOutOfRange, outcome.FlagFlat, outcome.FlagEarly, outcome.FlagWarmUp, outcome.FlagRate} {
		if seen&f == 0 {
			t.Errorf("no prediction has flag %v: the test has lost its subject", f)
		}
	}
}

// A missing value becomes the previous value of its channel, at the start of a sequence
// the mean, and without Hold zero.
func TestMissingValues(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		policy reservoir.Policy
		hold   bool
		want   []float32
	}{
		{reservoir.Policy{Kind: reservoir.Marked}, true, []float32{.25, 1, 2, 1, .25, 3}},
		{reservoir.Policy{Kind: reservoir.Window, Length: 2, Hop: 1}, true, []float32{.25, 1, 2, 1, 2, 3}},
		{reservoir.Policy{Kind: reservoir.Marked}, false, []float32{0, 1, 2, 0, 0, 3}},
	} {
		tracker := NewTracker(rulesOf(c.policy, c.hold))
		tr := tracker.NewTrack(false)
		x := []float32{nan, 1, 2, nan, nan, 3}
		s := Samples{Samples: sequence.Samples{Count: 3, Ends: []bool{false, true, false}}, X: x}
		s.Missing = AppendMissing(nil, x)
		if tracker.Feed(&tr, s); !slices.Equal(x, c.want) {
			t.Errorf("%+v, hold %v: %v, want %v", c.policy, c.hold, x, c.want)
		}
	}
}

// Silence ends a marked sequence with a prediction, and a window without one.
func TestEndSilent(t *testing.T) {
	for _, p := range []reservoir.Policy{{Kind: reservoir.Marked}, {Kind: reservoir.Window, Length: 4, Hop: 2}} {
		tracker := NewTracker(rulesOf(p, true))
		tr := tracker.NewTrack(true)
		tracker.Feed(&tr, Samples{Samples: sequence.Samples{Count: 1, Times: []int64{7}}, X: []float32{1, 2}})
		got := tracker.EndSilent(&tr, outcome.FlagGap)
		if tr.Seq.Open() {
			t.Errorf("%v: the sequence is open", p.Kind)
		}
		if p.Kind == reservoir.Window {
			if len(got) > 0 || len(tr.Sample) > 0 {
				t.Errorf("a window: %+v, sample %v", got, tr.Sample)
			}
			continue
		}
		if len(got) != 1 || !got[0].Emit || !got[0].End || got[0].Time != 7 || got[0].Samples() != 1 || got[0].Flags&(outcome.FlagIdle|outcome.FlagGap) != outcome.FlagIdle|outcome.FlagGap {
			t.Errorf("%+v", got)
		}
	}
}

// Feed allocates nothing after its first calls.
func TestFeedAllocates(t *testing.T) {
	rules := rulesOf(reservoir.Policy{Kind: reservoir.Window, Length: 12, Hop: 4, Early: 3}, true)
	rules.Front = &reservoir.Front{Smooth: 3, Means: []int{4, 16}}
	tracker := NewTracker(rules)
	tr := tracker.NewTrack(true)
	s := randomStream(rand.New(rand.NewPCG(1, 1)), 40)
	x := make([]float32, len(s.x))
	in := Samples{Samples: sequence.Samples{Count: 40, Times: s.times}, X: x, Missing: AppendMissing(nil, s.x)}
	feed := func() {
		copy(x, s.x)
		tracker.Feed(&tr, in)
	}
	feed()
	if n := testing.AllocsPerRun(100, feed); n > 0 {
		t.Errorf("%v allocations a call", n)
	}
}
