package classify

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/fit"
	"github.com/eusn-stream/eusn-stream/internal/sequence"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// waves are noisy sines of two frequencies on two channels, of lengths that
// cross the limits of an engine call and of a step.
func waves(n int) (series [][]float32, labels []string) {
	rng := rand.New(rand.NewPCG(8, 5))
	for i := range n {
		s := make([]float32, 0, 400)
		for t := range 20 + rng.IntN(180) {
			s = append(s, float32(math.Sin(float64(t)*[]float64{.2, .9}[i%2])+.1*rng.NormFloat64()), float32(rng.NormFloat64()))
		}
		series, labels = append(series, s), append(labels, []string{"slow", "fast"}[i%2])
	}
	return series, labels
}

func smallBank(channels int) reservoir.Spec {
	s := reservoir.EulerBank(channels)
	s.Members, s.Units = 3, 8
	return s
}

// TestFeaturesEqualOneByOne: neither other series in the call nor the number of
// calls changes a bit, also for a stream fed sample by sample.
func TestFeaturesEqualOneByOne(t *testing.T) {
	t.Run("eusn", func(t *testing.T) { checkOneByOne(t, smallBank(2)) })
	t.Run("mixed", func(t *testing.T) { checkOneByOne(t, untrainedMixed(2)) })
}

// untrainedMixed is a small recipe of kind mixed, as from Bank.
func untrainedMixed(channels int) reservoir.Spec {
	return reservoir.Spec{
		Arithmetic: reservoir.MixedArithmetic, Kind: reservoir.Mixed, Channels: channels, Members: 16, Units: 16, Seed: 9, Precision: reservoir.Float32,
		Standardize: true, Difference: true, Subset: 9, Features: slices.Clone(reservoir.MixedFeatures),
		Gamma: reservoir.Dist{Lo: 3e-4, Hi: .5}, EpsRho: reservoir.Dist{Lo: 1e-2, Hi: .3}, Input: reservoir.Dist{Lo: .03, Hi: 3}, Bias: reservoir.Dist{Lo: .03, Hi: 3},
		Taps: reservoir.Taps{Members: 8, Count: 3, Activation: reservoir.Cubic},
	}
}

// TestTrainMixed: training sees the lengths, and so sets the largest lag and the scales.
func TestTrainMixed(t *testing.T) {
	series, labels := waves(40)
	lengths := make([]int, len(series))
	for i, s := range series {
		lengths[i] = len(s) / 2
	}
	m, err := Train(context.Background(), untrainedMixed(2), series, labels)
	if err != nil {
		t.Fatal(err)
	}
	median := sequence.MedianLength(lengths)
	if want := median / 4; m.Network.Spec.Taps.MaxLag != want || want < 10 || want > 60 {
		t.Errorf("largest lag %d of sequences of %d samples in the median", m.Network.Spec.Taps.MaxLag, median)
	}
	features, err := Features(context.Background(), m.Network, series)
	if err != nil {
		t.Fatal(err)
	}
	numbers := make([]int, len(labels))
	for i, l := range labels {
		numbers[i] = slices.Index(m.Readouts[0].Classes, l)
	}
	opt := fit.Options{Standardize: true, Discriminant: true, Soft: &fit.Soft{Run: 16, Clip: 1.5, Floors: []float64{0, 0, 3 / float64(median), 0, 0, 3 / float64(median), 3 / float64(median), 3 / float64(median)}}}
	want, _, err := fit.Fit(context.Background(), features, numbers, m.Readouts[0].Classes, opt)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(m.Readouts[0].Weights, want.Weights) || !slices.Equal(m.Readouts[0].Limit, want.Limit) || want.Limit == nil {
		t.Error("the readout is not that of softly scaled and clipped features")
	}
}

func checkOneByOne(t *testing.T, spec reservoir.Spec) {
	t.Helper()
	series, labels := waves(seriesAtOnce + 9)
	m, err := Train(context.Background(), spec, series, labels)
	if err != nil {
		t.Fatal(err)
	}
	features, err := Features(context.Background(), m.Network, series)
	if err != nil {
		t.Fatal(err)
	}
	g, err := cpu.New(m.Network, 1, cpu.Options{Kind: cpu.Generic})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.SetReadouts(m.Readouts); err != nil {
		t.Fatal(err)
	}
	stream, err := NewStream(m)
	if err != nil {
		t.Fatal(err)
	}
	f := m.Network.Spec.FeatureCount()
	want, scores := make([]float32, f), make([]float32, g.ScoreWidth())
	correct := 0
	for i, s := range series {
		if err := g.Advance(s, []reservoir.Run{{Reset: true, Emit: true, To: int32(len(s) / 2)}}, scores); err != nil {
			t.Fatal(err)
		}
		if err := g.Features(0, want); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(features[i*f:(i+1)*f], want) {
			t.Fatalf("series %d: features differ", i)
		}
		cut := i % len(s) / 2 * 2
		if err := errors.Join(stream.Step(s[:cut]...), stream.Step(s[cut:]...)); err != nil {
			t.Fatal(err)
		}
		class, p := stream.Classify()
		if again, q := stream.Classify(); class != again || p != q {
			t.Errorf("series %d: asked twice: %s %g, then %s %g", i, class, p, again, q)
		}
		if h := m.Readouts[0]; class != h.Classes[h.Class(scores)] || p != h.Probability(scores) {
			t.Fatalf("series %d: %s with probability %g, the generic engine says otherwise", i, class, p)
		}
		if class == labels[i] {
			correct++
		}
		stream.Reset()
	}
	if correct < len(series)*9/10 {
		t.Errorf("%d of %d training series predicted", correct, len(series))
	}
}

// TestStreamAllocatesNothing: sample by sample, the price of a step is the
// engine's.
func TestStreamAllocatesNothing(t *testing.T) {
	t.Run("eusn", func(t *testing.T) { checkAllocations(t, smallBank(2)) })
	t.Run("mixed", func(t *testing.T) { checkAllocations(t, untrainedMixed(2)) })
}

func checkAllocations(t *testing.T, spec reservoir.Spec) {
	t.Helper()
	series, labels := waves(8)
	m, err := Train(context.Background(), spec, series, labels)
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewStream(m)
	if err != nil {
		t.Fatal(err)
	}
	x := float32(0)
	if n := testing.AllocsPerRun(100, func() {
		x += .01
		if err := s.Step(x, -x); err != nil {
			t.Fatal(err)
		}
		s.Classify()
	}); n != 0 {
		t.Errorf("%g allocations a step, want none", n)
	}
}

// TestLibraryRefuses: the error of each mistake names the requirement.
func TestLibraryRefuses(t *testing.T) {
	ctx := context.Background()
	nan := float32(math.NaN())
	good := [][]float32{{1, 2}, {2, 1}}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	for says, c := range map[string]struct {
		ctx    context.Context
		series [][]float32
		labels []string
	}{
		"series 1: want samples of 1 values": {ctx, [][]float32{{1}, {}}, []string{"a", "b"}},
		"series 1: reservoir: ":              {ctx, [][]float32{{1, 2}, {3, nan}}, []string{"a", "b"}},
		"want a label for each of 2 series":  {ctx, good, []string{"a"}},
		"15360 features and 1 classes":       {ctx, good, []string{"a", "a"}},
		"15360 features and 0 classes":       {ctx, nil, []string{}},
		context.Canceled.Error():             {canceled, good, []string{"a", "b"}},
		"class name":                         {ctx, good, []string{"a", "b\x1b"}},
	} {
		if m, err := Train(c.ctx, reservoir.DefaultBank(1), c.series, c.labels); err == nil || m != nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	net, err := reservoir.Draw(smallBank(2))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Features(ctx, net, [][]float32{{1, 2, 3}}); err == nil || !strings.Contains(err.Error(), "want samples of 2 values each, got 3 values") {
		t.Error(err)
	}
	if f, err := Features(ctx, net, nil); err != nil || len(f) != 0 {
		t.Errorf("%v, %v, want no features of no series", f, err)
	}

	series, labels := waves(4)
	m, err := Train(ctx, smallBank(2), series, labels)
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewStream(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Step(1, 2, 3); err == nil || !strings.Contains(err.Error(), "samples of 2 values") {
		t.Error(err)
	}
	_, before := s.Classify()
	var bad *reservoir.InputError
	if err := s.Step(1, 2, nan, 4); !errors.As(err, &bad) || bad.Sample != 1 || bad.Channel != 0 {
		t.Error(err)
	}
	if _, after := s.Classify(); after != before {
		t.Error("a refused sample changed the state")
	}
	m.Readouts = nil
	if _, err := NewStream(m); err == nil || !strings.Contains(err.Error(), "readout") {
		t.Error(err)
	}
}

// TestExampleIsShort: a program for training on slices and classifying has at
// most twelve lines between its braces; integration compares README with it.
func TestExampleIsShort(t *testing.T) {
	text, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "\nfunc Example() {\n")
	program, _, ended := strings.Cut(rest, "\t// Output:")
	if n := strings.Count(program, "\n"); !found || !ended || n > 12 {
		t.Errorf("the program has %d lines, want at most 12:\n%s", n, program)
	}
}

// TestStreamWithFront: a stream with a front end gives the result of the
// network on the front end's output, for any cuts by the caller.
func TestStreamWithFront(t *testing.T) {
	series, labels := waves(8)
	m, err := Train(t.Context(), smallBank(2), series, labels)
	if err != nil {
		t.Fatal(err)
	}
	bare := *m
	m.Front = &reservoir.Front{Normalize: 20, Decimate: 3, Fill: make([]float32, 2)}
	behind, err := NewStream(m)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := NewStream(&bare)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second begins after Reset
		x := slices.Repeat(series[0], 250)[:500]
		for i := 0; i < 250; {
			n := min(250-i, 1+i%90)
			if err := behind.Step(x[2*i : 2*(i+n)]...); err != nil {
				t.Fatal(err)
			}
			i += n
		}
		if err := plain.Step(x[:2*m.Front.Run(make([]float64, m.Front.StateSize(2)), 0, x, 2)]...); err != nil {
			t.Fatal(err)
		}
		behind.Classify()
		plain.Classify()
		if !slices.Equal(behind.scores, plain.scores) {
			t.Fatalf("scores %v, want %v", behind.scores, plain.scores)
		}
		behind.Reset()
		plain.Reset()
	}
}

// TestPredict: Predict gives the answers of a stream that is reset before each series,
// and its answers share no memory.
func TestPredict(t *testing.T) {
	series, labels := waves(30)
	m, err := Train(t.Context(), smallBank(2), series, labels)
	if err != nil {
		t.Fatal(err)
	}
	answers, err := Predict(t.Context(), m, series)
	if err != nil || len(answers) != len(series) {
		t.Fatalf("%d answers, %v, want %d", len(answers), err, len(series))
	}
	stream, err := NewStream(m)
	if err != nil {
		t.Fatal(err)
	}
	for i, samples := range series {
		stream.Reset()
		if err := stream.Step(samples...); err != nil {
			t.Fatal(err)
		}
		if want := stream.Answer(); !answers[i].Equal(&want) {
			t.Errorf("series %d: %+v, want %+v", i, answers[i], want)
		}
	}
	if n, err := Predict(t.Context(), m, nil); err != nil || len(n) != 0 {
		t.Errorf("no series: %v, %v", n, err)
	}
	for name, wrong := range map[string][][]float32{"series 1: want samples of 2": {series[0], {1}}, "series 0: want samples of 2": {{}}, "series 1:": {series[0], {1, float32(math.NaN())}}} {
		if _, err := Predict(t.Context(), m, wrong); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v", name, err)
		}
	}
	ended, end := context.WithCancelCause(t.Context())
	why := errors.New("stopped by the test")
	end(why)
	if _, err := Predict(ended, m, series); err != why {
		t.Errorf("with an ended context: %v, want its cause", err)
	}
}

// TestStreamWithRegimes: a model's operating regimes act on a stream as on a whole series.
func TestStreamWithRegimes(t *testing.T) {
	series, labels := waves(40)
	m, err := Train(context.Background(), smallBank(2), series, labels)
	if err != nil {
		t.Fatal(err)
	}
	g := &reservoir.Regimes{
		Settings: []int{1}, Mean: []float64{0}, Scale: []float64{1}, Centers: [][]float64{{-1}, {1}}, Reach: []float64{9, 9},
		Means: [][]float32{{.5, 0}, {-.5, 0}}, Scales: [][]float32{{2, 0}, {3, 0}},
	}
	m.Front = &reservoir.Front{Regimes: g, Fill: []float32{0, 0}}
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	answers, err := Predict(context.Background(), m, series)
	if err != nil {
		t.Fatal(err)
	}
	plain := *m
	plain.Front = nil
	stream, err := NewStream(&plain)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range series {
		for k := 0; k < len(s); k += 2 {
			r := 0
			if s[k+1] > 0 {
				r = 1
			}
			if err := stream.Step((s[k]-g.Means[r][0])*g.Scales[r][0], 0); err != nil {
				t.Fatal(err)
			}
		}
		// The product in float32 may differ in its last bit.
		if got, want := answers[i].Scores, stream.Answer().Scores; math.Abs(float64(got[0]-want[0])) > 1e-4 {
			t.Errorf("series %d: scores %v, want %v", i, got, want)
		}
		stream.Reset()
	}
}
