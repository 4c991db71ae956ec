package choose

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/offline/bridge"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// simulated returns streams of a signal, each with its label.
func simulated(streams, samples int, value func(stream, i int) float64, label func(stream, i int) int) *bridge.Trials {
	return &bridge.Trials{
		Channels: []string{"x"}, Classes: []string{"a", "b"},
		Read: func(_ context.Context, visit func(bridge.Samples)) error {
			for s := range streams {
				c := bridge.Samples{Stream: s}
				for i := range samples {
					c.Values = append(c.Values, float32(value(s, i)))
					c.Labels = append(c.Labels, label(s, i))
					c.Times = append(c.Times, int64(i)*1_000_000)
				}
				visit(c)
			}
			return nil
		},
	}
}

func measured(t *testing.T, data *bridge.Trials) Signal {
	t.Helper()
	s, err := Measure(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The correlation of an AR(1) process falls to 1/e after its time constant; the magnitude of modulated noise is slower than
// the noise.
func TestMeasureFindsTimeScales(t *testing.T) {
	draw, x := rand.New(rand.NewPCG(1, 1)), 0.
	slow := measured(t, simulated(4, 4000, func(int, int) float64 {
		x += -x/50 + draw.NormFloat64()
		return x
	}, func(s, _ int) int { return s % 2 }))
	if slow.Memory < 32 || slow.Memory > 64 {
		t.Errorf("an AR(1) process with a time constant of 50 samples has the correlation length %d", slow.Memory)
	}
	fast := measured(t, simulated(4, 8000, func(_, i int) float64 {
		return draw.NormFloat64() * (1 + math.Sin(float64(i)*2*math.Pi/200))
	}, func(s, _ int) int { return s % 2 }))
	if fast.Memory != 1 || fast.Envelope < 24 || fast.Envelope > 64 {
		t.Errorf("noise that is modulated with a period of 200 samples has the lengths %d and %d", fast.Memory, fast.Envelope)
	}
	if fast.Rate < 999 || fast.Rate > 1001 || !fast.Whole || fast.Single || fast.Streams != 4 || fast.Run != 8000 {
		t.Errorf("measured %+v", fast)
	}
	changing := measured(t, simulated(1, 1000, func(_, i int) float64 { return float64(i % 7) }, func(_, i int) int { return i / 500 }))
	if changing.Whole || !changing.Single || changing.Run != 500 {
		t.Errorf("a stream with two labels is measured as %+v", changing)
	}
}

// Envelopes are candidates of fast signals only, and candidates obey the limits of policies and the given settings.
func TestCandidatesFollowTimeScales(t *testing.T) {
	fast := Signal{Streams: 8, Samples: 1 << 20, Shortest: 1 << 17, Longest: 1 << 17, Run: 1 << 17, Memory: 2, Envelope: 30, Classes: []string{"a", "b"}}
	slow := fast
	slow.Memory, slow.Envelope = 2000, 2000
	given, open := Setting{Policy: DefaultPolicy(1<<17, 12000, 0)}, Open{Policy: true, Front: true}
	envelopes := func(s Signal) (n int) {
		for _, p := range Policies(s, given, open) {
			for _, c := range Fronts(s, p, open) {
				front := reservoir.Front{Decimate: c.Front.Decimate}
				if err := errors.Join(c.Policy.Validate(), front.CheckParts(c.Policy)); err != nil && c.Front.Decimate > 0 {
					t.Errorf("%s: %v", c, err)
				}
				if c.Front.Envelope.Samples > 0 {
					n++
				}
			}
		}
		return n
	}
	if n := envelopes(fast); n == 0 {
		t.Error("no candidate for a fast signal has an envelope")
	}
	if n := envelopes(slow); n != 0 {
		t.Errorf("%d candidates for a slow signal have an envelope", n)
	}
	given.Front = offline.Front{Decimate: 8}
	if all := slices.Concat(Policies(fast, given, Open{}), Fronts(fast, given, Open{})); len(all) != 2 || all[0] != given || all[1] != given {
		t.Errorf("nothing is open, and the candidates are %v", all)
	}
	for _, c := range Policies(fast, given, Open{Policy: true}) {
		if c.Front != given.Front {
			t.Errorf("the front end is given, and a candidate is %s", c)
		}
	}
	cycles := Signal{Streams: 20, Samples: 1200, Shortest: 60, Longest: 60, Run: 60, Memory: 2, Whole: true, Classes: []string{"a", "b"}}
	windows := DefaultPolicy(60, 0, 0)
	if all := Policies(cycles, Setting{Policy: windows}, open); len(all) != 2 || all[0].Policy != (reservoir.Policy{Kind: reservoir.Count, Length: 60}) || all[1].Policy != windows {
		t.Errorf("the candidates for cycles of 60 samples are %v, want whole cycles first", all)
	}
	if all := Policies(cycles, Setting{Policy: windows}, Open{Policy: true, Numbers: true}); len(all) != 1 || all[0].Policy != windows {
		t.Errorf("the candidates for numbers are %v", all)
	}
}

// tried returns trials with these errors, by the end of the text of a setting; for others 0.52, or 0.5 for base. A
// negative error is a failure.
func tried(standard string, errs map[string]float64, count *int) Try {
	return func(_ context.Context, s Setting, most int) (Outcome, error) {
		*count++
		e := 0.52
		if s.String() == standard {
			e = 0.5
		}
		for text, other := range errs {
			if strings.HasSuffix(s.String(), text) {
				e = other
			}
		}
		if e < 0 {
			return Outcome{}, errors.New("no sequence")
		}
		return Outcome{Error: e, Deviation: 0.05, Sequences: most, Guesses: e > 0.6}, nil
	}
}

func TestSearch(t *testing.T) {
	signal := Signal{Channels: []string{"x"}, Streams: 8, Samples: 1 << 20, Shortest: 1 << 17, Longest: 1 << 17, Run: 1 << 17, Memory: 2, Envelope: 30, Classes: []string{"a", "b"}}
	given := Setting{Policy: DefaultPolicy(1<<17, 1000, 0)}
	spec, _ := reservoir.Bank("tiny", 1)
	search := func(errs map[string]float64, b Budget, open Open) (chosen string, trials int, all []Result) {
		t.Helper()
		all, err := Search(t.Context(), given, b, signal, spec, open, tried(given.String(), errs, &trials), archive.Progress(nil))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range all {
			if r.Chosen && chosen != "" {
				t.Errorf("%s and %s are chosen", chosen, r)
			} else if r.Chosen {
				chosen = r.String()
			}
		}
		return chosen, trials, all
	}
	both := Open{Policy: true, Front: true}
	for _, c := range []struct {
		what   string
		errs   map[string]float64
		open   Open
		chosen string
	}{
		{"no candidate is better", nil, both, given.String()},
		{"better by more than a standard error", map[string]float64{"--length 8000 --hop 4000": 0.44}, both, "--policy window --length 8000 --hop 4000"},
		{"better by less than a standard error", map[string]float64{"--length 8000 --hop 4000": 0.46}, both, given.String()},
		{"a policy, then a front end", map[string]float64{"--length 8000 --hop 4000": 0.4, "--length 8000 --hop 4000 --front normalize=8000": 0.3}, both, "--policy window --length 8000 --hop 4000 --front normalize=8000"},
		{"the policy is given", map[string]float64{"--length 8000 --hop 4000": 0.1, "--front normalize=2000": 0.4}, Open{Front: true}, given.String() + " --front normalize=2000"},
		{"a front end is not worse at half the cost", map[string]float64{"center=480,envelope=30,decimate=10": 0.49}, both, given.String() + " --front center=480,envelope=30,decimate=10"},
		{"the base is not possible", map[string]float64{given.String(): -1, "--length 8000 --hop 4000": 0.49}, both, "--policy window --length 8000 --hop 4000"},
		{"a shorter hop is better", map[string]float64{"--hop 250": 0.1}, both, "--policy window --length 2000 --hop 250"},
	} {
		chosen, trials, all := search(c.errs, BudgetOf(1e6), c.open)
		if chosen != c.chosen {
			t.Errorf("%s: chosen is %s, want %s", c.what, chosen, c.chosen)
		}
		if chosenAgain, n, again := search(c.errs, BudgetOf(1e6), c.open); chosenAgain != chosen || n != trials || !reflect.DeepEqual(all, again) {
			t.Errorf("%s: two searches differ", c.what)
		}
	}
	if chosen, trials, all := search(nil, BudgetOf(1e-6), both); trials > 0 || len(all) != 1 || chosen != given.String() {
		t.Errorf("with no budget, %d trials chose %s of %d", trials, chosen, len(all))
	}
	_, many, _ := search(nil, BudgetOf(1e6), both)
	if _, few, _ := search(nil, BudgetOf(8), both); few >= many || few == 0 {
		t.Errorf("a small budget gives %d trials, a large one %d", few, many)
	}
}

// Nothing is chosen among guesses.
func TestGuessesChooseNothing(t *testing.T) {
	base := &Result{Outcome: Outcome{Error: 0.8, Deviation: 0.03}}
	r := &Result{Outcome: Outcome{Error: 0.6, Deviation: 0.03, Guesses: true}}
	if better([]*Result{base, r}) != base {
		t.Error("a candidate that guesses is chosen")
	}
	if r.Guesses = false; better([]*Result{base, r}) != r {
		t.Error("a better candidate is not chosen")
	}
}

// A candidate must be better in most groups: one group does not decide.
func TestGroupsDecide(t *testing.T) {
	groups := func(a ...float64) map[string]float64 {
		all := map[string]float64{}
		for i, v := range a {
			all[string(rune('a'+i))] = v
		}
		return all
	}
	base := &Result{Outcome: Outcome{Error: 0.3, Deviation: 0.02, Groups: groups(0.5, 0.6, 0.7, 0.8, 0.9, 0.5)}}
	for _, c := range []struct {
		groups map[string]float64
		want   bool
	}{
		{groups(0.55, 0.64, 0.76, 0.85, 0.94, 0.56), true},
		{groups(1, 0.55, 0.66, 0.79, 0.86, 0.48), false},
		{groups(1, 0.55), true}, // too few common groups
	} {
		if r := (&Result{Outcome: Outcome{Error: 0.2, Groups: c.groups}}); r.beats(base) != c.want {
			t.Errorf("accuracies %v beat %v: %v", c.groups, base.Groups, !c.want)
		}
	}
}

// A canceled search ends with the reason.
func TestSearchIsCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	signal := Signal{Channels: []string{"x"}, Samples: 1000, Shortest: 1000, Longest: 1000, Run: 1000, Memory: 2}
	spec, _ := reservoir.Bank("tiny", 1)
	_, err := Search(ctx, Setting{Policy: DefaultPolicy(1000, 0, 0)}, BudgetOf(60), signal, spec, Open{Front: true}, func(context.Context, Setting, int) (Outcome, error) {
		cancel()
		return Outcome{}, context.Canceled
	}, nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled search returns %v", err)
	}
}
