package fit

import (
	"bytes"
	"context"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/readout"
)

// learned adds samples in uneven blocks.
func learned(t *testing.T, x []float32, labels []int, classes int, opt Options, from, to int) *Learner {
	t.Helper()
	f := len(x) / len(labels)
	l, err := NewPart(f, classNames(classes), labels, from, to, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	for block, at := 1, 0; l.Plan().Passes > 1 && at < len(labels); block = block*5%900 + 1 {
		end := min(len(labels), at+block)
		if err := l.Measure(x[at*f : end*f]); err != nil {
			t.Fatal(err)
		}
		at = end
	}
	for block := 1; from < to; block = block*3%1000 + 1 {
		end := min(to, from+block)
		if err := l.Add(x[from*f : end*f]); err != nil {
			t.Fatal(err)
		}
		from = end
	}
	return l
}

func solved(t *testing.T, l *Learner, opt Options) (*readout.Linear, Report) {
	t.Helper()
	linear, r, err := l.Solve(context.Background(), opt)
	if err != nil {
		t.Fatal(err)
	}
	return linear, r
}

// TestLearnerIsFit adds samples block by block, kept in memory or spilled, in one part or
// several: if all samples are kept the readout has the bits of Fit.
func TestLearnerIsFit(t *testing.T) {
	for _, d := range [][2]int{{90, 1700}, {200, 200}, {1700, 90}} {
		n, f := d[0], d[1]
		x, labels := blobs(n, f, 3)
		groups := grouped(n)
		for _, opt := range []Options{{Standardize: true, Discriminant: true}, {Groups: groups, Standardize: true}, {Alphas: []float64{3}},
			{Standardize: true, Soft: &Soft{Run: 5, Floors: []float64{0, .1}, Clip: 1.5}}} {
			want, report, err := Fit(context.Background(), x, labels, classNames(3), opt)
			if err != nil {
				t.Fatal(err)
			}
			same := func(how string, l *Learner) {
				t.Helper()
				if linear, r := solved(t, l, opt); !reflect.DeepEqual(linear, want) || !reflect.DeepEqual(r, report) {
					t.Errorf("%d samples of %d features, %s: another readout than Fit's", n, f, how)
				}
			}
			same("in blocks", learned(t, x, labels, 3, opt, 0, n))
			little := opt
			plan := NewPlan(f, 3, n, opt)
			little.Memory = plan.Solving - 1
			if n > f {
				if plan.Adding >= plan.Solving {
					continue // nothing is left out, and solving takes less memory than adding
				}
				if l := learned(t, x, labels, 3, little, 0, n); !l.plan.Spilled {
					t.Errorf("%d samples of %d features in too little memory: the sums were not spilled", n, f)
				} else {
					same("with sums spilled", l)
				}
				continue
			}
			if little.Memory < NewPlan(f, 3, n, little).Solving {
				continue // the panel read from the file is no smaller
			}
			l := learned(t, x, labels, 3, little, 0, n)
			if l.kept.file == nil {
				t.Fatal("nothing was spilled")
			}
			same("spilled", l)
			cut := slices.Index(groups, groups[n/2])
			same("of two parts", merge(t, opt, learned(t, x, labels, 3, opt, 0, cut), learned(t, x, labels, 3, opt, cut, n)))
			same("spilled, written and read", merge(t, opt, learned(t, x, labels, 3, little, 0, n)))
			same("of two parts, spilled", merge(t, little, learned(t, x, labels, 3, opt, 0, cut), learned(t, x, labels, 3, opt, cut, n)))
		}
	}
}

// merge encodes and merges the parts.
func merge(t *testing.T, opt Options, parts ...*Learner) *Learner {
	t.Helper()
	l, err := mergeParts(opt, parts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func mergeParts(opt Options, parts ...*Learner) (l *Learner, err error) {
	for _, p := range parts {
		var b bytes.Buffer
		if err := p.Encode(&b); err != nil {
			return nil, err
		}
		if l, err = Merge(l, &b, int64(b.Len()), opt); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// streamed lowers the limit of kept samples so that most are not kept.
func streamed(t *testing.T, values int) {
	t.Helper()
	old := keptValues
	keptValues = values
	t.Cleanup(func() { keptValues = old })
}

// TestStreamedLeavesOutOfAll: beyond the limit, leave-one-out covers the drawn samples; each
// has the error of Fit, because each is left out of all samples. The weights equal Fit's at
// the same alpha.
func TestStreamedLeavesOutOfAll(t *testing.T) {
	const n, f, classes = 900, 30, 3
	x, labels := blobs(n, f, classes)
	for _, groups := range [][]int{nil, grouped(n)} {
		opt := Options{Standardize: true, Discriminant: true, Groups: groups}
		streamed(t, 40<<20)
		all := learned(t, x, labels, classes, opt, 0, n)
		streamed(t, 200*f)
		l := learned(t, x, labels, classes, opt, 0, n)
		if l.kept.n < 195 || l.kept.n > 200 {
			t.Fatalf("%d samples kept, want about 200", l.kept.n)
		}
		kept := make([]int, l.kept.n)
		for i, at := range l.place {
			if at >= 0 {
				kept[at] = i
			}
		}
		whole, part := verdictOf(t, all, 3, opt), verdictOf(t, l, 3, opt)
		for at, i := range kept {
			for c, want := range whole.ridge.Row(i) {
				// 1e-10: the same moments, and another computation of a class's mean.
				if got := part.ridge.Row(at)[c]; math.Abs(got-want) > 1e-10 {
					t.Fatalf("sample %d, column %d: %.14g, of all samples %.14g", i, c, got, want)
				}
			}
			for c, want := range whole.other.scores.Row(i) {
				if got := part.other.scores.Row(at)[c]; math.Abs(got-want) > 1e-10*math.Abs(want) {
					t.Fatalf("sample %d, class %d: discriminant %.14g, of all samples %.14g", i, c, got, want)
				}
			}
		}
		linear, r := solved(t, learned(t, x, labels, classes, opt, 0, n), opt)
		if r.LeftOutSamples != l.kept.n || r.Samples != n {
			t.Errorf("report %+v, want %d of %d samples left out", r, l.kept.n, n)
		}
		if !r.Discriminant {
			one := opt
			one.Alphas = []float64{r.Alpha}
			want, _, err := Fit(context.Background(), x, labels, classNames(classes), one)
			if err != nil {
				t.Fatal(err)
			}
			want.Temperature = linear.Temperature // of leave-one-out
			if !reflect.DeepEqual(linear, want) {
				t.Errorf("another readout than Fit's of alpha %g", r.Alpha)
			}
		}
	}
}

// verdictOf returns the leave-one-out result of alpha 10.
func verdictOf(t *testing.T, l *Learner, classes int, opt Options) verdict {
	t.Helper()
	groups, err := spans(l.keptGroups, l.kept.n)
	if err != nil {
		t.Fatal(err)
	}
	y := newTargets(l.keptLabels, l.moments.counts, nil)
	sys, err := newPrimal(sums{copied(l.moments), l.kept.x, l.raw, false}, y, groups, opt.scaling())
	if err != nil {
		t.Fatal(err)
	}
	s, err := sys.solve(context.Background(), 10, true)
	if err != nil {
		t.Fatal(err)
	}
	v, err := examine(context.Background(), s, y, l.moments.counts, true)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestPartsAreOne: any division into parts keeps the same samples, and the readout differs
// only by rounding: weights by 1e-6 of the largest, 16 units of float32.
func TestPartsAreOne(t *testing.T) {
	const n, f, classes = 1700, 40, 3
	streamed(t, 300*f)
	x, labels := blobs(n, f, classes)
	groups := grouped(n)
	opt := Options{Standardize: true, Discriminant: true, Groups: groups}
	want, report := solved(t, learned(t, x, labels, classes, opt, 0, n), opt)
	for _, parts := range []int{2, 5} {
		merged := func() (*readout.Linear, Report) {
			var all []*Learner
			from := 0
			for i := range parts {
				to := n
				if i < parts-1 {
					to = slices.Index(groups, groups[(i+1)*n/parts])
				}
				all = append(all, learned(t, x, labels, classes, opt, from, to))
				from = to
			}
			return solved(t, merge(t, opt, all...), opt)
		}
		linear, r := merged()
		largest := float32(0)
		for _, w := range want.Weights {
			largest = max(largest, w, -w)
		}
		for i, w := range linear.Weights {
			if d := w - want.Weights[i]; d > 1e-6*largest || -d > 1e-6*largest {
				t.Fatalf("%d parts: weight %d is %g, of one part %g", parts, i, w, want.Weights[i])
			}
		}
		if r.Alpha != report.Alpha || r.LeftOutSamples != report.LeftOutSamples || !reflect.DeepEqual(r.PerClass, report.PerClass) {
			t.Errorf("%d parts: %+v, of one %+v", parts, r, report)
		}
		if again, _ := merged(); !reflect.DeepEqual(again, linear) {
			t.Errorf("%d parts: not the same bits twice", parts)
		}
	}
}

// TestLearnerGathersGroups: samples of a group that are apart are stored together: the readout
// equals the readout of sorted samples.
func TestLearnerGathersGroups(t *testing.T) {
	const n, f = 120, 200
	x, labels := blobs(n, f, 3)
	groups := make([]int, n)
	for i := range groups {
		groups[i] = i % 30
	}
	opt := Options{Standardize: true, Discriminant: true, Groups: groups}
	linear, report := solved(t, learned(t, x, labels, 3, opt, 0, n), opt)
	var xs []float32
	var ls, gs []int
	for g := range 30 {
		for i := g; i < n; i += 30 {
			xs, ls, gs = append(xs, x[i*f:(i+1)*f]...), append(ls, labels[i]), append(gs, g)
		}
	}
	want, wanted, err := Fit(context.Background(), xs, ls, classNames(3), Options{Standardize: true, Discriminant: true, Groups: gs})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(linear, want) || !reflect.DeepEqual(report, wanted) {
		t.Error("another readout than of the same samples in order")
	}
}

// TestKeepDrawsWholeGroups checks that whole groups are drawn, and few groups of any size.
func TestKeepDrawsWholeGroups(t *testing.T) {
	list, err := gather(grouped(5000), 5000)
	if err != nil {
		t.Fatal(err)
	}
	kept, count := keep(list, 5000, 600, true)
	sum := 0
	for g, members := range list {
		if kept[g] {
			sum += len(members)
		}
	}
	if count < 595 || count > 600 || sum != count {
		t.Errorf("%d samples kept, counted %d, want about 600", sum, count)
	}
	three := [][]int32{make([]int32, 900), make([]int32, 900), make([]int32, 900)}
	if kept, count := keep(three, 2700, 600, true); count != 2700 || slices.Contains(kept, false) {
		t.Errorf("kept %v, want all of so few groups", kept)
	}
	if kept, count := keep(nil, 600, 600, true); kept != nil || count != 600 {
		t.Errorf("kept %v, want all", kept)
	}
	if kept, count := keep(nil, 600, 600, false); count != 0 || slices.Contains(kept, true) {
		t.Errorf("kept %v, want none", kept)
	}
}

func TestLearnerRefuses(t *testing.T) {
	x, labels := blobs(60, 5, 2)
	groups := grouped(60)
	for what, make := range map[string]func() error{
		"60 samples of 5 features need": func() error {
			_, err := NewLearner(5, classNames(2), labels, Options{Memory: 1000})
			return err
		},
		"cut the group": func() error {
			_, err := NewPart(5, classNames(2), labels, 0, 3, Options{Groups: groups})
			return err
		},
		"label 7": func() error { _, err := NewLearner(5, classNames(2), []int{7}, Options{}); return err },
		"samples 4 to 4 of 60": func() error {
			_, err := NewPart(5, classNames(2), labels, 4, 4, Options{})
			return err
		},
		"61 samples added, want 60": func() error {
			return learned(t, x, labels, 2, Options{}, 0, 60).Add(x[:5])
		},
		"is NaN": func() error {
			l, _ := NewLearner(5, classNames(2), labels, Options{})
			return l.Add([]float32{1, 2, float32(math.NaN()), 4, 5})
		},
		"samples 0 to 30 of 60, want all": func() error {
			_, _, err := learned(t, x, labels, 2, Options{}, 0, 30).Solve(context.Background(), Options{})
			return err
		},
		"samples 0 to 10 with 0 to 60": func() error {
			_, err := mergeParts(Options{}, learned(t, x, labels, 2, Options{}, 0, 10), learned(t, x, labels, 2, Options{}, 0, 60))
			return err
		},
		"want at most 0 MiB": func() error {
			_, err := mergeParts(Options{Memory: 100}, learned(t, x, labels, 2, Options{}, 0, 60))
			return err
		},
		"samples 0 to 30 with 31 to 60": func() error {
			_, err := mergeParts(Options{}, learned(t, x, labels, 2, Options{}, 0, 30), learned(t, x, labels, 2, Options{}, 31, 60))
			return err
		},
	} {
		if err := make(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("got %v, want an error saying %q", err, what)
		}
	}
}
