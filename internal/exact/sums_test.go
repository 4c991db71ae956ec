package exact

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// odd returns features of all sizes, below and above the rounding of sums.
func odd(n, f int, random *rand.Rand) (x []float32, labels []int) {
	for range n {
		labels = append(labels, random.IntN(3))
		for range f {
			x = append(x, float32(math.Ldexp(random.NormFloat64(), random.IntN(72)-60)))
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

// TestFixed compares integers of 192 bits with big integers, and their nearest float64.
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

// TestSumsAreExact compares the sums with arithmetic without rounding, for features that are
// multiples of 2^-64.
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

// TestSumsForget: removed samples, and merged and subtracted sums, leave no trace, bit for
// bit, after 10,000 additions and removals: unlearning a site equals training without the
// site.
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
		switch whole := random.IntN(8) == 0; { // single sequences take longer
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
	for i := sites*each - 1; i >= 0; i-- { // in another order
		if i/each == 7 {
			continue
		}
		y, l := part(i, i+1)
		must(t, never.Add(y, l))
	}
	if !reflect.DeepEqual(all, never) {
		t.Fatal("the sums are not those without the site")
	}
}

func TestWrongSums(t *testing.T) {
	x, labels := odd(12, 3, rand.New(rand.NewPCG(9, 9)))
	for i := range labels {
		labels[i] = i % 2
	}
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
	}
	if s.Samples() != 0 || !reflect.DeepEqual(s, newSums(t, 3, 2)) {
		t.Errorf("what is wrong changed the sums: %v", s.counts)
	}
}
