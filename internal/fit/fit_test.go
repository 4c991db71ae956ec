package fit

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/dense"
	"github.com/eusn-stream/eusn-stream/readout"
)

// blobs draws n samples around one random center per class.
func blobs(n, features, classes int) ([]float32, []int) {
	rng := rand.New(rand.NewPCG(uint64(n), uint64(features)))
	center := make([]float64, classes*features)
	for i := range center {
		center[i] = 0.5 * rng.NormFloat64()
	}
	x, labels := make([]float32, n*features), make([]int, n)
	for i := range n {
		labels[i] = i % classes
		for j := range features {
			x[i*features+j] = float32(center[labels[i]*features+j] + rng.NormFloat64())
		}
	}
	return x, labels
}

// TestFitChoosesTheBestAlpha runs the whole fit with a choice of alpha, on either side of
// n = F, where the solver changes.
func TestFitChoosesTheBestAlpha(t *testing.T) {
	for _, n := range []int{90, 91} {
		x, labels := blobs(n, 90, 3)
		_, all, err := Fit(context.Background(), x, labels, classNames(3), Options{Standardize: true})
		if err != nil {
			t.Fatal(err)
		}
		if all.Kernel != (n == 90) {
			t.Errorf("n=%d: kernel %v", n, all.Kernel)
		}
		if len(all.Trials) != 9 {
			t.Errorf("n=%d: %d trials, want 9", n, len(all.Trials))
		}
		best, least := 0.0, math.Inf(1)
		for _, alpha := range DefaultAlphas() {
			// The second alpha is too large to be better.
			_, r, err := Fit(context.Background(), x, labels, classNames(3), Options{Standardize: true, Alphas: []float64{alpha, 1e12}})
			if err != nil {
				t.Fatal(err)
			}
			if r.Trials[0].Error < least {
				best, least = alpha, r.Trials[0].Error
			}
		}
		if all.Alpha != best {
			t.Errorf("n=%d: chose %g, an exhaustive search %g", n, all.Alpha, best)
		}
	}
}

// TestFitPassesOverSingularAlphas checks that useless small alphas (duplicated features, more
// samples than features) are skipped.
func TestFitPassesOverSingularAlphas(t *testing.T) {
	x, labels := blobs(60, 4, 2)
	for i := range 60 {
		x[4*i+3] = x[4*i]
	}
	_, r, err := Fit(context.Background(), x, labels, classNames(2), Options{Alphas: []float64{0, 1}})
	if err != nil {
		t.Fatal(err)
	}
	if r.Alpha != 1 || len(r.Trials) != 1 {
		t.Errorf("chose %g of trials %v, want 1 alone", r.Alpha, r.Trials)
	}
}

func TestFitIgnoresThreads(t *testing.T) {
	for _, features := range []int{70, 400} { // normal, kernel
		x, labels := blobs(150, features, 3)
		fit := func(threads int) (*readout.Linear, Report) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(threads))
			linear, r, err := Fit(context.Background(), x, labels, classNames(3), Options{Standardize: true, Discriminant: true})
			if err != nil {
				t.Fatal(err)
			}
			return linear, r
		}
		linear, r := fit(1)
		for _, threads := range []int{2, 7} {
			if h, q := fit(threads); !reflect.DeepEqual(h, linear) || !reflect.DeepEqual(q, r) {
				t.Errorf("%d features: %d threads give another readout than 1", features, threads)
			}
		}
	}
}

func TestFitRefuses(t *testing.T) {
	good := []float32{1, 2, 3, 5, 8, 13}
	constant := []float32{1, 2, 1, 2, 1, 2}
	nan := []float32{1, 2, 3, float32(math.NaN()), 8, 13}
	for _, c := range []struct {
		what    string
		x       []float32
		labels  []int
		classes int
		alphas  []float64
	}{
		{"want at least 2, 2 and 2", good, []int{0, 0, 0}, 1, nil},
		{"want at least 2, 2 and 2", nil, nil, 2, nil},
		{`every sample is of class "class 1"`, good, []int{1, 1, 1}, 2, nil},
		{"sample 2: label 2", good, []int{0, 1, 2}, 2, nil},
		{"sample 1: feature 1 is NaN", nan, []int{0, 1, 1}, 2, nil},
		{"6 feature values for 4 labels", good, []int{0, 1, 0, 1}, 2, nil},
		{"features are constant", constant, []int{0, 1, 0}, 2, nil},
		{"alpha = NaN", good, []int{0, 1, 0}, 2, []float64{math.NaN()}},
		{"alpha = 0", good[:4], []int{0, 1}, 2, []float64{0}},
	} {
		_, _, err := Fit(context.Background(), c.x, c.labels, classNames(c.classes), Options{Alphas: c.alphas, Standardize: true})
		if err == nil || !strings.Contains(err.Error(), c.what) || errors.Is(err, ErrConstant) != (c.what == "features are constant") {
			t.Errorf("got %v, want an error saying %q", err, c.what)
		}
	}
}

func TestFitStops(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	x, labels := blobs(100, 200, 2)
	last := 0.0
	_, _, err := Fit(ctx, x, labels, classNames(2), Options{Progress: func(done float64) {
		if done < last || done > 1 {
			t.Errorf("progress %g after %g", done, last)
		}
		if last = done; done > 0.5 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
	if last == 0 {
		t.Error("no progress was reported")
	}
}

// TestFitWithAnAbsentClass: a class without samples is allowed if two others have some, and
// never wins against sensible scores of the others.
func TestFitWithAnAbsentClass(t *testing.T) {
	x, labels := blobs(60, 5, 2)
	for i := range labels {
		labels[i] *= 2
	}
	linear, r, err := Fit(context.Background(), x, labels, classNames(3), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if want := []int{30, 0, 30}; !reflect.DeepEqual(r.PerClass, want) {
		t.Errorf("per class %v, want %v", r.PerClass, want)
	}
	scores := make([]float32, 3)
	for i := range labels {
		if linear.Scores(scores, x[5*i:5*i+5]); scores[1] != -1 {
			t.Fatalf("absent class scores %g, want -1", scores[1])
		}
	}
}

func TestSearchFindsValleys(t *testing.T) {
	for n := 1; n <= 40; n++ {
		for low := range n {
			tried := map[int]bool{}
			got, err := search(n, func(i int) (float64, error) {
				if tried[i] {
					t.Fatalf("n=%d: index %d tried twice", n, i)
				}
				tried[i] = true
				return math.Abs(float64(i - low)), nil
			})
			if err != nil || got != low {
				t.Fatalf("n=%d: got %d, %v, want %d", n, got, err, low)
			}
			if len(tried) > searchSteps(n) {
				t.Fatalf("n=%d: %d steps, promised %d", n, len(tried), searchSteps(n))
			}
		}
	}
	if got := searchSteps(19); got != 9 {
		t.Errorf("19 points take %d steps, the documentation says 9", got)
	}
}

// BenchmarkFit fits data sets with the features of the default bank.
func BenchmarkFit(b *testing.B) {
	for _, d := range []struct {
		name       string
		n, classes int
	}{{"CharacterTrajectories", 1422, 20}, {"SpokenArabicDigits", 6599, 10}, {"PenDigits", 7494, 10}} {
		x, labels := blobs(d.n, 10000, d.classes)
		b.Run(d.name, func(b *testing.B) {
			for b.Loop() {
				if _, _, err := Fit(context.Background(), x, labels, classNames(d.classes), Options{Standardize: true}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkManySamples has more samples than features.
func BenchmarkManySamples(b *testing.B) {
	const n, features, classes = 60000, 200, 10
	x, labels := blobs(n, features, classes)
	for b.Loop() {
		if _, _, err := Fit(context.Background(), x, labels, classNames(classes), Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestFitCopiesNoFeatures: the float64 values of products are packed in pieces: all memory of
// a fit is less than a float64 copy of the features.
func TestFitCopiesNoFeatures(t *testing.T) {
	for _, d := range [][2]int{{500, 12000}, {30000, 100}} {
		x, labels := blobs(d[0], d[1], 3)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, _, err := Fit(context.Background(), x, labels, classNames(3), Options{Alphas: []float64{1}}); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if got, limit := after.TotalAlloc-before.TotalAlloc, uint64(8*len(x)); got > limit {
			t.Errorf("%d samples of %d features: %d bytes allocated, want less than a float64 copy, %d", d[0], d[1], got, limit)
		}
	}
}

// TestTemperatureIsOfLeaveOneOut checks that the temperature maximizes the likelihood of
// scores from readouts fitted to all other samples, each really fitted; probabilities then
// match frequencies.
func TestTemperatureIsOfLeaveOneOut(t *testing.T) {
	for _, classes := range []int{2, 3} {
		const n, features = 60, 5
		x, labels := blobs(n, features, classes)
		linear, r, err := Fit(t.Context(), x, labels, classNames(classes), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if linear.Temperature != r.Temperature || !(r.Temperature > 0) || r.Discriminant {
			t.Fatalf("readout %v, report %v", linear.Temperature, r.Temperature)
		}
		scores := dense.New(n, classes)
		for i := range n {
			rest := slices.Delete(slices.Clone(x), i*features, (i+1)*features)
			one, _, err := Fit(t.Context(), rest, slices.Delete(slices.Clone(labels), i, i+1), classNames(classes), Options{Alphas: []float64{r.Alpha}})
			if err != nil {
				t.Fatal(err)
			}
			if one.Temperature != 0 {
				t.Fatalf("one alpha, and no leave-one-out: temperature %v, want none", one.Temperature)
			}
			row := make([]float32, one.Columns())
			one.Scores(row, x[i*features:(i+1)*features])
			for c, s := range row {
				scores.Row(i)[classes-len(row)+c] = float64(s)
			}
		}
		want, _ := temper(scores, labels, nil, doubt(n))
		if math.Abs(linear.Temperature/want-1) > 3./1024 { // steps of the grid, which rounding may move
			t.Errorf("%d classes: temperature %v, want %v", classes, linear.Temperature, want)
		}
	}
}

// TestTemperatureOfPerfectReadouts: a class predicted n times without an error is still not
// certain: the doubt is an eighth of a wrong sample, for both kinds of readout.
func TestTemperatureOfPerfectReadouts(t *testing.T) {
	for _, classes := range []int{2, 4} {
		for _, discriminant := range []bool{false, true} {
			n := 25 * classes
			x, labels := blobs(n, 30, classes)
			for i := range x {
				label := labels[i/30]
				x[i] += 9 * float32(label*(i%30%(label+1))) // far apart
			}
			linear, r, err := Fit(t.Context(), x, labels, classNames(classes), Options{Discriminant: discriminant, Standardize: true})
			if err != nil {
				t.Fatal(err)
			}
			sum := 0.0
			scores := make([]float32, linear.Columns())
			for i := range n {
				linear.Scores(scores, x[i*30:(i+1)*30])
				sum += float64(linear.Probability(scores))
			}
			// The mean doubt is 1/(8n+2) for left-out samples, and less for training samples.
			if mean := sum / float64(n); mean < 1-2/float64(8*n+2) || mean == 1 {
				t.Errorf("%d classes, discriminant %v (taken: %v): mean probability %v, temperature %v", classes, discriminant, r.Discriminant, mean, r.Temperature)
			}
		}
	}
}
