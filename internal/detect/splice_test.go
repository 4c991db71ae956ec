package detect

import (
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"

	"github.com/eusn-stream/eusn-stream/readout/novelty"
)

// twoClasses returns vectors whose two halves show the class. at returns the position of each:
// -1 and 1 are the classes; a larger value of the second is an excess in deviations.
func twoClasses(seed uint64, n, f int, at func(i int, r *rand.Rand) (first, second float64)) []float32 {
	r, x := rand.New(rand.NewPCG(seed, 5)), make([]float32, n*f)
	for i := range n {
		first, second := at(i, r)
		for j := range f {
			v := first
			if j >= f/2 {
				v = second
			}
			x[i*f+j] = float32(v + r.NormFloat64())
		}
	}
	return x
}

// join is linear in the first half and takes the maximum in the second, like shares and
// maxima.
func join(dst, a, b []float32, share float32) {
	for j := range dst {
		if dst[j] = share*a[j] + (1-share)*b[j]; j >= len(dst)/2 {
			dst[j] = max(a[j], b[j])
		}
	}
}

func area(known, novel []float32) float64 {
	sum := 0.
	for _, a := range known {
		for _, b := range novel {
			if b > a {
				sum++
			} else if b == a {
				sum += .5
			}
		}
	}
	return sum / float64(len(known)*len(novel))
}

// TestSplice checks that the spliced direction finds a sequence between two classes, or
// opposite, which drowns among 57 others without this direction. Whole sequences keep their
// share of small p-values: four deviations, as in TestShareOfFalseAlarms.
func TestSplice(t *testing.T) {
	const n, f, fresh = 240, 60, 400
	whole := func(i int, _ *rand.Rand) (float64, float64) { v := float64(2*(i%2) - 1); return v, v }
	x, classes := twoClasses(1, n, f, whole), make([]int, n)
	for i := range classes {
		classes[i] = i % 2
	}
	o := Options{ByPlace: true, dims: 3}
	plain, _ := fit(t, x, n, o)
	o.Splice, o.Classes = join, classes
	d, r := fit(t, x, n, o)
	if r.Dimensions != 3 || d.Usual == nil || d.Usual.Between != 1 || len(d.Usual.Linear) < 2 || d.Usual.Square[0] >= 0 {
		t.Fatalf("%d directions, usual %+v, want 3, and the first one's square counted against a sequence", r.Dimensions, d.Usual)
	}
	for a := range 3 { // principal axes are orthonormal, the spliced axis has unit length
		for b := range 3 {
			if a != b && min(a, b) == 0 {
				continue
			}
			dot, want := 0., 0.
			for j := range f {
				dot += float64(d.Axes[a*f+j]) * float64(d.Axes[b*f+j])
			}
			if a == b {
				want = 1
			}
			if math.Abs(dot-want) > 1e-5 {
				t.Errorf("directions %d and %d have the product %v", a, b, dot)
			}
		}
	}
	scores := func(d *novelty.Detector, x []float32) (s []float32) {
		for i := range fresh {
			s = append(s, score(d, x[i*f:(i+1)*f]))
		}
		return s
	}
	known := twoClasses(2, fresh, f, whole)
	for name, side := range map[string]float64{"as spliced": 1, "the other way": -1} {
		novel := twoClasses(3, fresh, f, func(int, *rand.Rand) (float64, float64) { return -side * .4, side * .4 })
		without, with := area(scores(plain, known), scores(plain, novel)), area(scores(d, known), scores(d, novel))
		if with < .85 || with < without+.1 {
			t.Errorf("%s: AUROC %.3f, without splices %.3f", name, with, without)
		}
	}
	count := 0
	for _, s := range scores(d, known) {
		if d.P(s) <= .1 {
			count++
		}
	}
	if share, most := float64(count)/fresh, .1+4*math.Sqrt(.1*.9*(1./fresh+1./n)); share > most {
		t.Errorf("%.3f of whole sequences have a p-value of at most .1, want at most %.3f", share, most)
	}
	// The result is equal for any number of threads.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if one, _ := fit(t, x, n, o); !reflect.DeepEqual(one, d) {
		t.Error("one thread learns another detector")
	}
}

// TestPairings checks that each pair of up to three classes has a direction, and that more
// classes share one. No vector is spliced of only one class.
func TestPairings(t *testing.T) {
	for classes, want := range map[int]int{2: 1, 3: 3, 4: 1} {
		n, f := 80*classes, 40
		o := Options{ByPlace: true, Classes: make([]int, n)}
		for i := range o.Classes {
			o.Classes[i] = i % classes
		}
		x := twoClasses(1, n, f, func(i int, _ *rand.Rand) (float64, float64) { c := float64(9 * o.Classes[i]); return c, c })
		pairs := map[[2]int]bool{}
		o.Splice = func(dst, a, b []float32, share float32) {
			one, other := int(math.Round(float64(a[0])/9)), int(math.Round(float64(b[0])/9))
			if one == other || share < leastShare || share > 1-leastShare {
				t.Errorf("%v of class %d with class %d", share, one, other)
			}
			pairs[[2]int{one, other}] = true
			join(dst, a, b, share)
		}
		d, _ := fit(t, x, n, o)
		if d.Usual == nil || d.Usual.Between != want || len(pairs) != classes*(classes-1) {
			t.Errorf("%d classes: usual residuals %+v and spliced of %v, want %d directions, and of each two classes", classes, d.Usual, pairs, want)
		}
	}
}

// TestNoSplice checks that there is no spliced direction if a class has too few sequences, or
// if a left-out part has all of a class: the result is equal to a fit without splices.
func TestNoSplice(t *testing.T) {
	const n, f = 240, 40
	for name, of := range map[string]func(i int) (class, group int){
		"few of a class":          func(i int) (int, int) { return min(1, i%8), i },
		"a class that is a group": func(i int) (int, int) { return i % 2, i % 2 },
	} {
		x := twoClasses(1, n, f, func(i int, _ *rand.Rand) (float64, float64) { c, _ := of(i); return float64(c), float64(c) })
		o := Options{ByPlace: true, Groups: make([]int, n)}
		classes := make([]int, n)
		for i := range n {
			classes[i], o.Groups[i] = of(i)
		}
		plain, _ := fit(t, x, n, o)
		o.Splice, o.Classes = join, classes
		if d, _ := fit(t, x, n, o); !reflect.DeepEqual(d, plain) {
			t.Errorf("%s: another detector than without splices", name)
		}
	}
}
