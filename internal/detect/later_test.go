package detect

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/readout/novelty"
)

// splitRuns keeps each run in order of time, and no later sequence has a sample of an early one.
func TestSplitRuns(t *testing.T) {
	var spans []Span
	for i := range int64(9) { // windows of 4 every 2; the other run has two sequences
		spans = append(spans, Span{0, 2 * i, 2*i + 4})
	}
	spans = append(spans, Span{1, 0, 4}, Span{1, 4, 8})
	slices.Reverse(spans[:9])
	early, later := splitRuns(spans)
	if !slices.Equal(early, []int{3, 4, 5, 6, 7, 8, 9, 10}) || !slices.Equal(later, []int{1, 0}) { // 2 begins in 3
		t.Errorf("early %v, later %v", early, later)
	}
	if n := countSeparate(spans, later); n != 1 {
		t.Errorf("%d separate sequences of %v, want 1", n, later)
	}
	if n := countSeparate(spans, []int{8, 6, 4, 9, 10}); n != 5 {
		t.Errorf("%d separate sequences, want 5", n)
	}
}

// noisy makes n sequences of two runs; a feature in ten follows the time of its run by drift.
func noisy(n, f int, drift float64) (x []float32, o Options) {
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range n {
		at := i % (n / 2)
		o.Spans = append(o.Spans, Span{i / (n / 2), int64(at), int64(at + 1)})
		for j := range f {
			v := rng.NormFloat64()
			if j%10 == 0 {
				v += drift * rng.Float64() * float64(at) / float64(n/2)
			}
			x = append(x, float32(v))
		}
	}
	return x, o
}

// The measured share is the promised share on data without drift, and far more on drifting data.
func TestLater(t *testing.T) {
	const n, f = 240, 80
	x, o := noisy(n, f, 0)
	o.Level = .1
	d, r := fit(t, x, n, o)
	// 80 at .1: more than 18 or none has a probability below 1e-3, and the seed is fixed
	if l := r.Later; l == nil || l.Sequences != 80 || l.Separate != 80 || l.Level != .1 || l.Novel > 18 || l.Novel < 1 || !l.Holds() || d.Later != l {
		t.Errorf("without drift: %+v", r.Later)
	}
	x, _ = noisy(n, f, 20)
	if _, r = fit(t, x, n, o); r.Later == nil || r.Later.Holds() || r.Later.Share() < .3 {
		t.Errorf("with drift: %+v", r.Later)
	}
	o.Spans = o.Spans[:1]
	if _, _, err := Fit(context.Background(), x, n, o); err == nil || !strings.Contains(err.Error(), "want the place of each") {
		t.Errorf("one place: %v", err)
	}
	o.Spans = nil
	if d, r = fit(t, x, n, o); r.Later != nil || d.Later != nil {
		t.Errorf("without places: %+v", r.Later)
	}
	d.Later = &novelty.Later{Level: .1, Sequences: 3, Novel: 4, Separate: 1}
	if d.Validate() == nil {
		t.Error("4 of 3 sequences are accepted")
	}
}

// A level that the first two thirds cannot reach is replaced by the smallest level that they reach.
func TestLaterLevel(t *testing.T) {
	const n = 60
	x, o := noisy(n, 40, 0)
	o.Level = .02
	if _, r := fit(t, x, n, o); r.Later == nil || r.Later.Level != 1./41 {
		t.Errorf("%+v, want a level of 1/41", r.Later)
	}
}

// Parts of a single run are scored by the sequences of one side, without common samples.
func TestDivideAside(t *testing.T) {
	o := Options{Aside: true}
	for i := range int64(100) { // windows of 20 every 2
		o.Spans = append(o.Spans, Span{3, 2 * i, 2*i + 20})
	}
	of, inside := divideAside(o)
	if len(of) != 100 || len(inside) != Folds || of[0] != 0 || of[49] != 4 || of[99] != 9 {
		t.Fatalf("parts %v, %d folds", of, len(inside))
	}
	for fold, want := range map[int][2]int{0: {19, 99}, 4: {59, 99}, 5: {0, 40}, 9: {0, 80}} {
		if got := inside[fold]; got[0] != want[0] || got[len(got)-1] != want[1] || len(got) != want[1]-want[0]+1 {
			t.Errorf("part %d is scored by %v", fold, got)
		}
	}
	o.Spans[7].Run = 1
	if of, _ := divideAside(o); of != nil {
		t.Error("two runs are divided")
	}
	o.Spans = o.Spans[8:34] // a side has too few sequences
	if of, _ := divideAside(o); of != nil {
		t.Error("a short run is divided")
	}
}

// A level of the run that changes once is in all sequences with both sides, and a surprise from one side: such changes
// raise the limit.
func TestAside(t *testing.T) {
	const n, f = 200, 60
	rng := rand.New(rand.NewPCG(7, 8))
	o := Options{Level: .1}
	var x []float32
	for i := range n {
		o.Spans, o.Groups = append(o.Spans, Span{0, int64(i), int64(i + 1)}), append(o.Groups, 5*i/n)
		for j := range f {
			x = append(x, float32(rng.NormFloat64()))
			if i >= n/2 && j%2 == 0 {
				x[i*f+j] += 4
			}
		}
	}
	both, _ := fit(t, x, n, o)
	o.Aside = true
	one, r := fit(t, x, n, o)
	high, _ := one.Limit()
	low, _ := both.Limit()
	if len(one.Left) != n || r.Least != both.Least() || high*one.Unit < 3*low*both.Unit {
		t.Errorf("%d scores for %d sequences; limits %v and %v", len(one.Left), n, high*one.Unit, low*both.Unit)
	}
	if !slices.Equal(one.Axes, both.Axes) || !slices.Equal(one.Center, both.Center) {
		t.Error("the score itself has changed")
	}
}
