package detect

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/readout/novelty"
)

type reference struct {
	N, Dims, Width int
	Groups         []int
	Features, New  []float32
	Left, Scores   []float64
	P              []float64
	Classes        *reference // with the usual residual by place
	Splices        *reference // with by-place division and spliced directions
}

func fit(t *testing.T, x []float32, n int, o Options) (*novelty.Detector, Report) {
	t.Helper()
	d, r, err := Fit(context.Background(), x, n, o)
	if err != nil {
		t.Fatal(err)
	}
	return d, r
}

func score(d *novelty.Detector, features []float32) float32 {
	return d.Score(slices.Clone(features))
}

// TestReference compares scores and p-values with a NumPy program.
func TestReference(t *testing.T) {
	b, err := os.ReadFile("testdata/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	var r reference
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	t.Run("residual", func(t *testing.T) { r.hold(t, Options{Groups: r.Groups, dims: r.Dims}, 12) })
	t.Run("by place", func(t *testing.T) {
		d := r.Classes.hold(t, Options{dims: r.Classes.Dims, ByPlace: true}, r.Classes.N)
		if d.Usual == nil || len(d.Usual.Linear) != Places || d.Usual.Most < 1 {
			t.Errorf("usual residuals %+v, want one class louder than the other", d.Usual)
		}
	})
	t.Run("splices", func(t *testing.T) {
		made, o := 0, Options{dims: r.Splices.Dims, ByPlace: true, Classes: make([]int, r.Splices.N)}
		for i := range o.Classes {
			o.Classes[i] = i % 3
		}
		o.Splice = func(dst, _, _ []float32, _ float32) { // the formula of the NumPy program
			for j := range dst {
				dst[j] = float32(math.Cos(.37*float64(made)+.21*float64(j*j)) * float64(2+made%5))
			}
			made++
		}
		if d := r.Splices.hold(t, o, r.Splices.N); d.Usual == nil || d.Usual.Between != 3 {
			t.Errorf("usual residuals %+v, want a direction for each two of three classes", d.Usual)
		}
	})
}

// hold compares the result of Fit with the NumPy program.
func (r *reference) hold(t *testing.T, o Options, groups int) *novelty.Detector {
	t.Helper()
	d, report := fit(t, r.Features, r.N, o)
	if report.Dimensions != r.Dims || report.Groups != groups || report.Sequences != r.N {
		t.Errorf("report %+v", report)
	}
	// float32 sums of 40 squares, most of them canceled
	near := func(got float32, want float64) bool { return math.Abs(float64(got)-want) <= 2e-4*want+1e-4 }
	for i, want := range r.Left {
		if !near(d.Left[i], want) {
			t.Errorf("left[%d] is %v, NumPy has %v", i, d.Left[i], want)
		}
	}
	f := d.Features()
	for i, want := range r.Scores {
		s := score(d, r.New[i*f:(i+1)*f])
		if !near(s, want) || math.Abs(float64(d.P(s))-r.P[i]) > 1e-6 {
			t.Errorf("vector %d: score %v, p %v, NumPy has %v and %v", i, s, d.P(s), want, r.P[i])
		}
	}
	return d
}

// cloud returns vectors around a plane of few dimensions.
func cloud(seed uint64, n, f int, noise float64) []float32 {
	plane, r := rand.New(rand.NewPCG(4, 4)), rand.New(rand.NewPCG(seed, 9))
	axes := make([]float64, 3*f)
	for i := range axes {
		axes[i] = plane.NormFloat64()
	}
	x := make([]float32, n*f)
	for i := range n {
		a, b, c := r.NormFloat64(), r.NormFloat64(), r.NormFloat64()
		for j := range f {
			x[i*f+j] = float32(a*axes[j] + b*axes[f+j] + c*axes[2*f+j] + noise*r.NormFloat64())
		}
	}
	return x
}

// TestShareOfFalseAlarms checks that a share alpha of vectors like the training's has a
// p-value of at most alpha, for every alpha. The threshold of four deviations of the share, of
// 4,000 vectors and the training's own 200, is exceeded for one in 10^4 seeds; the seed is
// fixed.
func TestShareOfFalseAlarms(t *testing.T) {
	const n, f, fresh = 200, 100, 4000
	d, _ := fit(t, cloud(1, n, f, .5), n, Options{})
	x := cloud(2, fresh, f, .5)
	p := make([]float64, fresh)
	for i := range p {
		p[i] = float64(d.P(score(d, x[i*f:(i+1)*f])))
	}
	for _, alpha := range []float64{.005, .02, .1, .5} {
		count := 0
		for _, v := range p {
			if v <= alpha {
				count++
			}
		}
		share := float64(count) / fresh
		if most := alpha + 4*math.Sqrt(alpha*(1-alpha)*(1./fresh+1./n)); share > most {
			t.Errorf("%.4f of fresh vectors have a p-value of at most %v, want at most %.4f", share, alpha, most)
		}
	}
	far := cloud(3, 50, f, 2)
	for i := range 50 {
		if got := d.P(score(d, far[i*f:(i+1)*f])); got != float32(1)/(n+1) {
			t.Fatalf("a vector four times as far from the plane has the p-value %v", got)
		}
	}
}

// quietAndLoud returns two alternating classes; the second is further from its plane.
func quietAndLoud(seed uint64, n, f int) []float32 {
	quiet, loud := cloud(seed, n, f, .2), cloud(seed+100, n, f, .6)
	for i := 1; i < n; i += 2 {
		for j := range f {
			quiet[i*f+j] = loud[i*f+j] + float32(6*(j%2))
		}
	}
	return quiet
}

// TestByPlace checks that each class has its share of small p-values if residuals are divided
// by place, and that the quiet class has none otherwise. The tolerance is four deviations, as
// above, of 1,000 fresh vectors and 100 training vectors of a class.
func TestByPlace(t *testing.T) {
	const n, f, fresh, alpha = 200, 60, 2000, .1
	x := quietAndLoud(2, fresh, f)
	for _, byPlace := range []bool{false, true} {
		d, _ := fit(t, quietAndLoud(1, n, f), n, Options{ByPlace: byPlace})
		var counts [2]float64
		for i := range fresh {
			if float64(d.P(score(d, x[i*f:(i+1)*f]))) <= alpha {
				counts[i%2] += 2. / fresh
			}
		}
		tolerance := 4 * math.Sqrt(alpha*(1-alpha)*(2./fresh+2./n))
		if byPlace && max(math.Abs(counts[0]-alpha), math.Abs(counts[1]-alpha)) > tolerance || !byPlace && counts[0] != 0 {
			t.Errorf("by place %v: shares of %.3f of the quiet class and %.3f of the loud one have a p-value of at most %v", byPlace, counts[0], counts[1], alpha)
		}
	}
}

// TestThreads checks that the result does not depend on the number of threads.
func TestThreads(t *testing.T) {
	const n, f = 90, 700
	x, o := quietAndLoud(1, n, f), Options{ByPlace: true}
	one, _ := fit(t, x, n, o)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(5))
	if five, _ := fit(t, x, n, o); !reflect.DeepEqual(one, five) {
		t.Error("other threads learn another detector")
	}
}

func TestRefused(t *testing.T) {
	x := cloud(1, 20, 5, .1)
	for _, c := range []struct {
		n    int
		o    Options
		want string
	}{
		{7, Options{}, "at least 8"},
		{20, Options{Groups: make([]int, 20)}, "of one group"},
		{20, Options{Groups: []int{1}}, "groups of 1"},
		{20, Options{Level: 1}, "level"},
	} {
		if _, _, err := Fit(context.Background(), x[:c.n*5], c.n, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.o, err, c.want)
		}
	}
	if _, _, err := Fit(context.Background(), make([]float32, 100), 20, Options{}); !errors.Is(err, ErrConstant) {
		t.Errorf("equal vectors: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, err := Fit(ctx, x, 20, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	good, _ := fit(t, x, 20, Options{})
	for what, spoil := range map[string]func(d *novelty.Detector){
		"axes":   func(d *novelty.Detector) { d.Axes = d.Axes[1:] },
		"scale":  func(d *novelty.Detector) { d.Scale = d.Scale[1:] },
		"unit":   func(d *novelty.Detector) { d.Unit = 0 },
		"left":   func(d *novelty.Detector) { d.Left = nil },
		"order":  func(d *novelty.Detector) { d.Left = []float32{2, 1} },
		"number": func(d *novelty.Detector) { d.Center = []float32{0, 0, float32(math.NaN()), 0, 0} },
		"level":  func(d *novelty.Detector) { d.Level = 0 },
		"places": func(d *novelty.Detector) { d.Usual = &novelty.Usual{} },
		"square": func(d *novelty.Detector) { d.Usual = &novelty.Usual{Linear: []float32{1}} },
		"most": func(d *novelty.Detector) {
			d.Usual = &novelty.Usual{Linear: []float32{1}, Square: []float32{1}, Most: 65}
		},
		"offset": func(d *novelty.Detector) {
			d.Usual = &novelty.Usual{Linear: []float32{1}, Square: []float32{1}, Offset: float32(math.NaN())}
		},
		"linear": func(d *novelty.Detector) {
			d.Usual = &novelty.Usual{Linear: []float32{float32(math.Inf(1))}, Square: []float32{1}}
		},
		"between": func(d *novelty.Detector) {
			d.Usual = &novelty.Usual{Linear: []float32{1}, Square: []float32{1}, Between: 2}
		},
		"many": func(d *novelty.Detector) {
			d.Usual = &novelty.Usual{Linear: make([]float32, 20), Square: make([]float32, 20)}
		},
	} {
		bad := *good
		if spoil(&bad); bad.Validate() == nil {
			t.Errorf("%s: no error", what)
		}
	}
}

// TestNoAllocation checks that the live stage's work per prediction allocates no memory.
func TestNoAllocation(t *testing.T) {
	x := cloud(1, 50, 64, .1)
	d, _ := fit(t, x, 50, Options{})
	d.Usual = &novelty.Usual{Most: 2, Linear: []float32{1}, Square: []float32{1}}
	if n := testing.AllocsPerRun(100, func() {
		d.Novel(d.P(d.Score(x)))
		d.Limit()
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkOf measures the cost of dividing a score by place: docs/results.md.
func BenchmarkOf(b *testing.B) {
	within := make([]float32, Dimensions)
	for name, usual := range map[string]*novelty.Usual{"residual": nil, "by place": {Most: 3, Offset: 1.5, Linear: make([]float32, Places), Square: make([]float32, Places)}} {
		d := &novelty.Detector{Unit: 1, Usual: usual}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				d.Of([4]float64{1, 2, 3, 4}, within)
			}
		})
	}
}

// TestOneUnlikeTheOthers leaves one sequence out: the rest are equal and have no directions; a
// scale may be given all the same.
func TestOneUnlikeTheOthers(t *testing.T) {
	ones := func(mean, _ []float64) []float64 { return slices.Repeat([]float64{1}, len(mean)) }
	x := slices.Repeat([]float32{1, 2, 3}, 20)
	x[0] = 5
	for _, byPlace := range []bool{false, true} {
		if d, _ := fit(t, x, 20, Options{Scale: ones, ByPlace: byPlace}); d.Dimensions() != 1 || d.Usual != nil {
			t.Errorf("%d directions, usual residuals %v", d.Dimensions(), d.Usual)
		}
	}
}
