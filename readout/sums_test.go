package readout

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/dense"
)

// odd are features that a sum of float64 numbers loses digits of: some beside a large
// mean, some tiny, some constant, some of all sizes.
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

func newSums(t testing.TB, features, classes int) *Sums {
	t.Helper()
	s, err := NewSums(features, classes)
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

func bigOf(w fixed) *big.Int {
	v := new(big.Int)
	for i := 2; i >= 0; i-- {
		v.Lsh(v, 64).Or(v, new(big.Int).SetUint64(w[i]))
	}
	if w[2]>>63 != 0 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), 192))
	}
	return v
}

// Integers of 192 bits compute as those of any size do, and become the nearest float64.
func TestFixed(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	modulus := new(big.Int).Lsh(big.NewInt(1), 192)
	same := func(w fixed, v *big.Int) bool {
		d := new(big.Int).Sub(bigOf(w), v)
		return d.Mod(d, modulus).Sign() == 0
	}
	for i := range 20_000 {
		draw := func() fixed {
			w := fixedOf(random.Int64()>>random.IntN(64)*int64(1-2*random.IntN(2)), uint(random.IntN(65)))
			if random.IntN(4) == 0 {
				w = fixed{random.Uint64(), random.Uint64(), random.Uint64()}
			}
			return w
		}
		a, b := draw(), draw()
		x, y := bigOf(a), bigOf(b)
		if !same(a.plus(b), new(big.Int).Add(x, y)) || !same(a.minus(b), new(big.Int).Sub(x, y)) || !same(a.times(b), new(big.Int).Mul(x, y)) {
			t.Fatalf("%d: %x and %x", i, a, b)
		}
		want, _ := new(big.Float).SetInt(x).Float64()
		if got := a.float(-128); got != math.Ldexp(want, -128) {
			t.Fatalf("%d: %x is %v, want %v", i, a, got, math.Ldexp(want, -128))
		}
	}
}

// The sums are those of arithmetic without rounding, of features that are multiples of
// 2^-64.
func TestSumsAreExact(t *testing.T) {
	const n, f = 150, 13
	x, labels := odd(n, f, rand.New(rand.NewPCG(3, 4)))
	x[0], x[1], x[2], x[3] = 0, math.SmallestNonzeroFloat32, -65535.99, float32(math.Copysign(0, -1))
	s := newSums(t, f, 3)
	must(t, s.Add(x, labels))
	value := func(i, j int) *big.Int { // in units of 2^-64
		v, _ := new(big.Float).SetFloat64(math.RoundToEven(math.Ldexp(float64(x[i*f+j]), 64))).Int(nil)
		return v
	}
	for i := range f {
		for j := range i + 1 {
			want := new(big.Int)
			for k := range n {
				want.Add(want, new(big.Int).Mul(value(k, i), value(k, j)))
			}
			at := s.outer[3*(i*(i+1)/2+j):]
			if got := bigOf(fixed{at[0], at[1], at[2]}); got.Cmp(want) != 0 {
				t.Fatalf("product %d, %d is %v, want %v", i, j, got, want)
			}
		}
		for class := range 3 {
			want := new(big.Int)
			for k := range n {
				if labels[k] == class {
					want.Add(want, value(k, i))
				}
			}
			if got := bigOf(s.sum(class, i)); got.Cmp(want) != 0 {
				t.Fatalf("feature %d of class %d is %v, want %v", i, class, got, want)
			}
		}
	}
}

// What was removed, and what was merged and subtracted, is as if it had never been
// there, bit for bit, after 10,000 additions and removals: unlearning a site is training
// without it.
func TestSumsForget(t *testing.T) {
	const sites, each, f = 20, 30, 37
	random := rand.New(rand.NewPCG(5, 6))
	x, labels := odd(sites*each, f, random)
	part := func(from, to int) ([]float32, []int) { return x[from*f : to*f], labels[from:to] }
	site := func(k int) ([]float32, []int) { return part(k*each, (k+1)*each) }
	all, alone := newSums(t, f, 3), make([]*Sums, sites)
	same := []int{0, 1, 2}
	there := make([]bool, sites)
	for k := range sites {
		alone[k] = newSums(t, f, 3)
		y, l := site(k)
		must(t, alone[k].Add(y, l))
	}
	for range 10_000 {
		k := random.IntN(sites)
		y, l := site(k)
		switch whole := random.IntN(8) == 0; { // sequences one after the other take longer
		case whole && there[k]:
			must(t, all.Remove(y, l))
		case whole:
			must(t, all.Add(y, l))
		case there[k]:
			must(t, all.Subtract(alone[k], same))
		default:
			must(t, all.Merge(alone[k], same))
		}
		there[k] = !there[k]
	}
	for k := range sites { // in the end all but one
		y, l := site(k)
		switch want := k != 7; {
		case want && !there[k]:
			must(t, all.Add(y, l))
		case !want && there[k]:
			must(t, all.Remove(y, l))
		}
	}
	never := newSums(t, f, 3)
	var kept Kept
	for i := sites*each - 1; i >= 0; i-- { // in another order
		if i/each == 7 {
			continue
		}
		y, l := part(i, i+1)
		must(t, never.Add(y, l))
		kept.Features, kept.Labels = append(kept.Features, y...), append(kept.Labels, l...)
	}
	if !reflect.DeepEqual(all, never) {
		t.Fatal("the sums are not those without the site")
	}
	a, _, err := all.Solve(context.Background(), classNames(3), kept, Options{Standardise: true, Discriminant: true})
	must(t, err)
	b, _, err := never.Solve(context.Background(), classNames(3), kept, Options{Standardise: true, Discriminant: true})
	must(t, err)
	if !reflect.DeepEqual(a, b) {
		t.Error("the readouts differ")
	}
}

// The two forms solve for the same coefficients within 1e-10 of the largest, and choose
// alike. What is left is the rounding of float64 sums in the form that has them.
func TestSumsAreALearner(t *testing.T) {
	for name, make := range map[string]func(n, f int) ([]float32, []int){
		"blobs": func(n, f int) ([]float32, []int) { return blobs(n, f, 3) },
		"odd":   func(n, f int) ([]float32, []int) { return odd(n, f, rand.New(rand.NewPCG(7, 8))) },
	} {
		const n, f = 1100, 90
		x, labels := make(n, f)
		s := newSums(t, f, 3)
		must(t, s.Add(x, labels))
		for _, opt := range []Options{{Standardise: true, Discriminant: true}, {Standardise: true, Groups: grouped(n)}, {Alphas: []float64{2}}} {
			want, wantReport := solved(t, learnt(t, x, labels, 3, opt, 0, n), opt)
			got, report, err := s.Solve(context.Background(), classNames(3), Kept{x, labels, opt.Groups}, opt)
			must(t, err)
			if report.Alpha != wantReport.Alpha || report.Discriminant != wantReport.Discriminant || report.Samples != n {
				t.Errorf("%s: alpha %v, want %v", name, report, wantReport)
			}
			for i, w := range got.Weights {
				// The coefficients agree within 1e-10; where such a number is next to the
				// middle of two float32, they are rounded to different ones.
				if d := math.Abs(float64(w - want.Weights[i])); d > 1.2e-7*math.Abs(float64(w)) {
					t.Fatalf("%s: weight %d is %v, want %v", name, i, w, want.Weights[i])
				}
			}
			y := newTargets(labels, s.counts, nil)
			coef := func(g *moments) dense.Matrix {
				p, err := newPrimal(sums{all: g, kept: x}, y, nil, opt.scaling())
				must(t, err)
				r, err := p.solve(context.Background(), report.Alpha, false)
				must(t, err)
				return r.coef
			}
			l := learnt(t, x, labels, 3, Options{Alphas: []float64{1}}, 0, n)
			a, b := coef(s.moments()), coef(l.moments)
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

func TestWrongSums(t *testing.T) {
	x, labels := blobs(12, 3, 2)
	s := newSums(t, 3, 2)
	must(t, s.Add(x, labels))
	before := newSums(t, 3, 2)
	must(t, before.Merge(s, []int{0, 1}))
	other, four := newSums(t, 3, 1), newSums(t, 4, 2)
	for what, err := range map[string]error{
		"too large":            s.Add([]float32{1, 65536, 1}, []int{0}),
		"not a number":         s.Add([]float32{1, float32(math.NaN()), 1}, []int{0}),
		"class":                s.Add(x[:3], []int{2}),
		"half a sample":        s.Add(x[:4], []int{0}),
		"more than there are":  s.Remove(slices.Concat(x, x), slices.Concat(labels, labels)),
		"other features":       s.Merge(four, []int{0, 1}),
		"classes not named":    s.Merge(s, []int{0}),
		"a class that is none": s.Merge(other, []int{2}),
		"subtracted twice":     errors.Join(s.Subtract(before, []int{0, 1}), s.Subtract(before, []int{0, 1})),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
		if what == "too large" && !errors.Is(err, ErrLarge) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if s.Samples() != 0 || !reflect.DeepEqual(s, newSums(t, 3, 2)) {
		t.Errorf("what is wrong changed the sums: %v", s.counts)
	}
	solve := func(s *Sums, kept Kept, opt Options) error {
		_, _, err := s.Solve(context.Background(), classNames(2), kept, opt)
		return err
	}
	clip := Options{Standardise: true, Soft: &Soft{Run: 1, Floors: []float64{0}, Clip: 1}}
	if err := solve(before, Kept{}, clip); !errors.Is(err, ErrClipped) {
		t.Errorf("limited features: %v", err)
	}
	for _, kept := range []Kept{{}, {x, labels[1:], nil}, {x, labels, []int{1}}} {
		if err := solve(before, kept, Options{}); err == nil {
			t.Errorf("%d kept: no error", len(kept.Labels))
		}
	}
	if err := solve(s, Kept{}, Options{Alphas: []float64{1}}); err == nil {
		t.Error("sums of nothing: no error")
	}
}

// Whatever a file of sums holds: an error, or sums.
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
		got, err := DecodeSums(bytes.NewReader(data), int64(len(data)))
		if bytes.Equal(data, good) && (err != nil || !reflect.DeepEqual(got, s) || s.EncodedBytes() != int64(len(good))) {
			t.Errorf("%+v, %v", got, err)
		}
		if bytes.Equal(data, changed) && err == nil {
			t.Error("a changed bit is not noticed")
		}
		if err == nil {
			got.Solve(context.Background(), classNames(len(got.counts)), Kept{}, Options{Alphas: []float64{1}}) // an error, or a readout
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
				s.moments()
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
