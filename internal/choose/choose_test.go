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

// Envelopes are candidates of fast signals only, and candidates obey the limits of policies.
func TestSettingsFollowTimeScales(t *testing.T) {
	fast := Signal{Streams: 8, Samples: 1 << 20, Shortest: 1 << 17, Longest: 1 << 17, Run: 1 << 17, Memory: 2, Envelope: 30, Whole: true, Classes: []string{"a", "b"}}
	slow := fast
	slow.Memory, slow.Envelope = 2000, 2000
	given := Setting{Policy: DefaultPolicy(1<<17, 12000, 0)}
	envelopes := func(s Signal) (n int) {
		for _, c := range Settings(s, given, Open{Policy: true, Front: true}) {
			front := reservoir.Front{Decimate: c.Front.Decimate}
			if err := errors.Join(c.Policy.Validate(), front.CheckParts(c.Policy)); err != nil && c.Front.Decimate > 0 {
				t.Errorf("%s: %v", c, err)
			}
			if c.Front.Envelope.Samples > 0 {
				n++
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
	if all := Settings(fast, given, Open{}); len(all) != 1 || all[0] != given {
		t.Errorf("nothing is open, and the candidates are %v", all)
	}
	for _, c := range Settings(fast, given, Open{Front: true}) {
		if c.Policy != given.Policy {
			t.Errorf("the policy is given, and a candidate is %s", c)
		}
	}
	given.Front = offline.Front{Decimate: 8}
	for _, c := range Settings(fast, given, Open{Policy: true}) {
		if c.Front != given.Front {
			t.Errorf("the front end is given, and a candidate is %s", c)
		}
	}
	whole := slow
	whole.Shortest, whole.Longest, whole.Run = 60, 60, 60
	if all := Settings(whole, Setting{Policy: DefaultPolicy(60, 0, 0)}, Open{Policy: true}); !slices.ContainsFunc(all, func(s Setting) bool { return s.Policy == reservoir.Policy{Kind: reservoir.Count, Length: 60} }) {
		t.Errorf("no candidate is a whole stream of 60 samples: %v", all)
	}
}

// tried returns trials with these errors, by the end of the text of a setting; for others 0.52, or 0.5 for standard. A
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
		return Outcome{Error: e, Deviation: 0.05, Sequences: most}, nil
	}
}

func TestSearch(t *testing.T) {
	signal := Signal{Channels: []string{"x"}, Streams: 8, Samples: 1 << 20, Shortest: 1 << 17, Longest: 1 << 17, Run: 1 << 17, Memory: 2, Envelope: 30, Classes: []string{"a", "b"}}
	settings := Settings(signal, Setting{Policy: DefaultPolicy(1<<17, 1000, 0)}, Open{Policy: true, Front: true})
	spec, _ := reservoir.Bank("tiny", 1)
	standard, other := settings[0].String(), settings[2].String()
	search := func(errs map[string]float64, b Budget) (chosen string, trials int, all []Result) {
		t.Helper()
		all, err := Search(t.Context(), settings, b, signal, spec, Open{Policy: true}, tried(standard, errs, &trials), archive.Progress(nil))
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
	for _, c := range []struct {
		what   string
		errs   map[string]float64
		chosen string
	}{
		{"no candidate is better", nil, standard},
		{"better by more than a standard error", map[string]float64{other: 0.44}, other},
		{"better by less than a standard error", map[string]float64{other: 0.46}, standard},
		{"a front end is not worse at half the cost", map[string]float64{"--length 2000 --hop 1000 --front center=480,envelope=30,decimate=10": 0.49}, standard + " --front center=480,envelope=30,decimate=10"},
		{"the default is not possible", map[string]float64{standard: -1, other: 0.49}, other},
		{"a shorter hop is better", map[string]float64{"--hop 250": 0.1}, "--policy window --length 2000 --hop 250"},
	} {
		chosen, trials, all := search(c.errs, BudgetOf(1e6))
		if chosen != c.chosen {
			t.Errorf("%s: chosen is %s, want %s", c.what, chosen, c.chosen)
		}
		if chosenAgain, n, again := search(c.errs, BudgetOf(1e6)); chosenAgain != chosen || n != trials || !reflect.DeepEqual(all, again) {
			t.Errorf("%s: two searches differ", c.what)
		}
	}
	if chosen, trials, all := search(map[string]float64{other: 0.1}, BudgetOf(1e-6)); trials > 0 || len(all) != 1 || chosen != standard {
		t.Errorf("with no budget, %d trials chose %s of %d", trials, chosen, len(all))
	}
	_, many, _ := search(nil, BudgetOf(1e6))
	if _, few, all := search(nil, Budget(workOf(settings[:3], fewSequences, signal, spec)*1.01)); len(all) != 4 || few >= many { // with the shorter hop
		t.Errorf("a budget for three candidates gives %d trials of %d", few, len(all))
	}
}

// A canceled search ends with the reason.
func TestSearchIsCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	signal := Signal{Channels: []string{"x"}, Samples: 1000, Shortest: 1000, Longest: 1000, Run: 1000, Memory: 2}
	settings := Settings(signal, Setting{Policy: DefaultPolicy(1000, 0, 0)}, Open{Front: true})
	spec, _ := reservoir.Bank("tiny", 1)
	_, err := Search(ctx, settings, BudgetOf(60), signal, spec, Open{}, func(context.Context, Setting, int) (Outcome, error) {
		cancel()
		return Outcome{}, context.Canceled
	}, nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled search returns %v", err)
	}
}
