package fit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/dense"
	"github.com/eusn-stream/eusn-stream/internal/exact"
)

// odd returns features for which float64 sums lose digits: some next to a large mean, some
// tiny, some constant, some of all sizes.
func odd(n, f int, random *rand.Rand) (x []float32, labels []int) {
	labels = make([]int, n)
	for i := range n {
		labels[i] = random.IntN(3)
		for j := range f {
			v := random.NormFloat64() + float64(labels[i]*(j%3))
			switch j % 6 {
			case 1:
				v = 1 + v*1e-4
			case 2:
				v *= 1e-7
			case 3:
				v *= math.Pow(10, -9+12*random.Float64())
			case 4:
				v *= 1000
			case 5:
				v = math.Tanh(v)
			}
			x = append(x, float32(v))
		}
	}
	return x, labels
}

func newSums(t testing.TB, features, classes int) *exact.Sums {
	t.Helper()
	s, err := exact.NewSums(features, classes)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestSumsAreALearner: both forms solve for the same coefficients within 1e-10 of the largest,
// and choose alike. The difference is the rounding of float64 sums in the Learner.
func TestSumsAreALearner(t *testing.T) {
	for name, make := range map[string]func(n, f int) ([]float32, []int){
		"blobs": func(n, f int) ([]float32, []int) { return blobs(n, f, 3) },
		"odd":   func(n, f int) ([]float32, []int) { return odd(n, f, rand.New(rand.NewPCG(7, 8))) },
	} {
		const n, f = 1100, 90
		x, labels := make(n, f)
		s := newSums(t, f, 3)
		must(t, s.Add(x, labels))
		for _, opt := range []Options{{Standardize: true, Discriminant: true}, {Standardize: true, Groups: grouped(n)}, {Alphas: []float64{2}}} {
			want, wantReport := solved(t, learned(t, x, labels, 3, opt, 0, n), opt)
			got, report, err := SolveSums(context.Background(), s, classNames(3), Kept{x, labels, opt.Groups}, opt)
			must(t, err)
			if report.Alpha != wantReport.Alpha || report.Discriminant != wantReport.Discriminant || report.Samples != n {
				t.Errorf("%s: alpha %v, want %v", name, report, wantReport)
			}
			for i, w := range got.Weights {
				// The coefficients agree within 1e-10; a number next to the middle of two
				// float32 may round to either.
				if d := math.Abs(float64(w - want.Weights[i])); d > 1.2e-7*math.Abs(float64(w)) {
					t.Fatalf("%s: weight %d is %v, want %v", name, i, w, want.Weights[i])
				}
			}
			y := newTargets(labels, s.Counts(), nil)
			coef := func(g *moments) dense.Matrix {
				p, err := newPrimal(sums{all: g, kept: x}, y, nil, opt.scaling())
				must(t, err)
				r, err := p.solve(context.Background(), report.Alpha, false)
				must(t, err)
				return r.coef
			}
			l := learned(t, x, labels, 3, Options{Alphas: []float64{1}}, 0, n)
			a, b := coef(momentsFromSums(s)), coef(l.moments)
			largest, apart := 0., 0.
			for i := range a.Data {
				largest, apart = max(largest, math.Abs(a.Data[i])), max(apart, math.Abs(a.Data[i]-b.Data[i]))
			}
			t.Logf("%s: coefficients differ by %.2g of the largest", name, apart/largest)
			if !(apart <= 1e-10*largest) {
				t.Errorf("%s: coefficients differ by %g of the largest, want at most 1e-10", name, apart/largest)
			}
		}
	}
}

func TestSolveSumsRefuses(t *testing.T) {
	x, labels := blobs(12, 3, 2)
	none, before := newSums(t, 3, 2), newSums(t, 3, 2)
	must(t, before.Add(x, labels))
	solve := func(s *exact.Sums, kept Kept, opt Options) error {
		_, _, err := SolveSums(context.Background(), s, classNames(2), kept, opt)
		return err
	}
	clip := Options{Standardize: true, Soft: &Soft{Run: 1, Floors: []float64{0}, Clip: 1}}
	if err := solve(before, Kept{}, clip); !errors.Is(err, ErrClipped) {
		t.Errorf("limited features: %v", err)
	}
	for _, kept := range []Kept{{}, {x, labels[1:], nil}, {x, labels, []int{1}}} {
		if err := solve(before, kept, Options{}); err == nil {
			t.Errorf("%d kept: no error", len(kept.Labels))
		}
	}
	if err := solve(none, Kept{}, Options{Alphas: []float64{1}}); err == nil {
		t.Error("sums of nothing: no error")
	}
}

// FuzzDecodeSums: any bytes give an error, or sums.
func FuzzDecodeSums(f *testing.F) {
	x, labels := blobs(12, 3, 2)
	s := newSums(f, 3, 2)
	must(f, s.Add(x, labels))
	var b bytes.Buffer
	must(f, s.Encode(&b))
	good := slices.Clone(b.Bytes())
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add(good[:20])
	changed := slices.Clone(good)
	changed[60] ^= 1
	f.Add(changed)
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := exact.DecodeSums(bytes.NewReader(data), int64(len(data)))
		if bytes.Equal(data, good) && (err != nil || !reflect.DeepEqual(got, s) || s.EncodedBytes() != int64(len(good))) {
			t.Errorf("%+v, %v", got, err)
		}
		if bytes.Equal(data, changed) && err == nil {
			t.Error("a changed bit is not noticed")
		}
		if err == nil {
			SolveSums(context.Background(), got, classNames(got.Classes()), Kept{}, Options{Alphas: []float64{1}}) // an error, or a readout
		}
	})
}

func BenchmarkSums(b *testing.B) {
	const n = 64
	for _, f := range []int{200, 1000, 2000} {
		x, labels := blobs(n, f, 3)
		s := newSums(b, f, 3)
		b.Run(fmt.Sprintf("add/%d", f), func(b *testing.B) {
			for b.Loop() {
				must(b, s.Add(x, labels))
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/n, "µs/sample")
		})
		b.Run(fmt.Sprintf("moments/%d", f), func(b *testing.B) {
			for b.Loop() {
				s.Moments()
			}
		})
		b.Run(fmt.Sprintf("learner/%d", f), func(b *testing.B) {
			g := newMoments(f, 3)
			for b.Loop() {
				g.add(x, labels)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/n, "µs/sample")
		})
	}
}
