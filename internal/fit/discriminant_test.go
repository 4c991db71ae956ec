package fit

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/eusn-stream/eusn-stream/internal/dense"
	"github.com/eusn-stream/eusn-stream/readout"
)

// distances is the definition: -1/2 the squared Mahalanobis distances of x to the classes'
// means of the samples z, (x-m)' (S + alpha I)^-1 (x-m).
func distances(t *testing.T, z [][]float64, labels []int, classes int, alpha float64, x []float64) []float64 {
	t.Helper()
	f := len(x)
	means, counts := make([][]float64, classes), make([]float64, classes)
	for k := range means {
		means[k] = make([]float64, f)
	}
	for i, row := range z {
		counts[labels[i]]++
		for j, v := range row {
			means[labels[i]][j] += v
		}
	}
	for k := range means {
		for j := range means[k] {
			means[k][j] /= counts[k]
		}
	}
	s := mat.NewSymDense(f, nil)
	for j := range f {
		s.SetSym(j, j, alpha)
	}
	for i, row := range z {
		d := mat.NewVecDense(f, nil)
		for j, v := range row {
			d.SetVec(j, v-means[labels[i]][j])
		}
		s.SymRankOne(s, 1, d)
	}
	var chol mat.Cholesky
	if !chol.Factorize(s) {
		t.Fatal("the reference's scatter is not positive definite")
	}
	r := make([]float64, classes)
	for k := range r {
		u, v := mat.NewVecDense(f, nil), mat.NewVecDense(f, nil)
		for j := range f {
			u.SetVec(j, x[j]-means[k][j])
		}
		if err := chol.SolveVecTo(v, u); err != nil {
			t.Fatal(err)
		}
		r[k] = -mat.Dot(u, v) / 2
	}
	return r
}

// standardized returns the samples in the solver's space.
func standardized(tt *testing.T, x []float32, n int) [][]float64 {
	tt.Helper()
	t := tableOf(tt, x, n, true)
	z := make([][]float64, n)
	f := len(t.mean)
	for i := range z {
		z[i] = make([]float64, f)
		for j := range z[i] {
			z[i][j] = (float64(x[i*f+j]) - t.mean[j]) * t.scale[j]
		}
	}
	return z
}

// unequal sets classes of different sizes: shares 1/2, 1/4, ...
func unequal(labels []int, classes int) {
	for i := range labels {
		labels[i] = 0
		for k := 1; k < classes && i>>k<<k == i; k++ {
			labels[i] = k
		}
	}
}

// TestDiscriminantIsItsDefinition compares the readout and every leave-one-out score, through
// both systems, for two classes and for more, with the definition, computed from only the
// other samples. 1e-8 is for two computations through matrices of condition up to 1e5; a
// readout's float32 weights are compared through its scores, within 1e-4 of the largest.
func TestDiscriminantIsItsDefinition(t *testing.T) {
	for _, c := range []struct {
		n, features, classes int
		alpha                float64
	}{{40, 60, 4, 3}, {40, 60, 2, .01}, {60, 20, 4, 1}, {60, 20, 2, 100}} {
		x, labels := blobs(c.n, c.features, c.classes)
		unequal(labels, c.classes)
		counts, err := checkFit(x, labels, classNames(c.classes), false)
		if err != nil {
			t.Fatal(err)
		}
		y := newTargets(labels, counts, nil)
		tab := tableOf(t, x, c.n, true)
		sys := bothSystems(t, x, y, nil, true)[map[bool]string{true: "kernel", false: "moments"}[c.n <= c.features]]
		s, err := sys.solve(context.Background(), c.alpha, true)
		if err != nil {
			t.Fatal(err)
		}
		v, err := examine(context.Background(), s, y, counts, true)
		if err != nil {
			t.Fatal(err)
		}
		d := v.other

		z := standardized(t, x, c.n)
		want := dense.New(c.n, c.classes)
		for i := range z {
			others := slices.Delete(slices.Clone(z), i, i+1)
			copy(want.Row(i), distances(t, others, slices.Delete(slices.Clone(labels), i, i+1), c.classes, c.alpha, z[i]))
		}
		tau, loss := temper(want, labels, nil, 0)
		if math.Abs(loss-d.loss) > 1e-8 || d.accuracy != hits(want, labels) {
			t.Errorf("%+v: log-loss %.12g and accuracy %g, want %.12g and %g", c, d.loss, d.accuracy, loss, hits(want, labels))
		}

		coef := dense.New(s.coef.Rows, s.coef.Cols)
		dense.Multiply(coef, 1, s.coef, false, d.mix, false)
		w, err := sys.weights(coef)
		if err != nil {
			t.Fatal(err)
		}
		linear, err := newLinear(classNames(c.classes), tab.space, w, d.bias, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]float32, linear.Columns())
		for i := range z {
			linear.Scores(got, x[i*c.features:(i+1)*c.features])
			want := distances(t, z, labels, c.classes, c.alpha, z[i])
			for j := range got {
				g, w := float64(got[j]), tau*(want[(j+1)%c.classes]-want[0])
				if len(got) == 1 {
					w = tau * (want[1] - want[0])
				} else {
					g = float64(got[(j+1)%c.classes] - got[0])
				}
				if math.Abs(g-w) > 1e-4*(1+math.Abs(w)) {
					t.Fatalf("%+v: sample %d, column %d: %g, want %g", c, i, j, g, w)
				}
			}
		}
	}
}

// TestDiscriminantIsTakenWhereItIsBetter: targets of +1 and -1 cannot separate classes in a
// row along one feature: the ridge classifier's scores of the middle classes stay below their
// neighbors' (they are masked). The discriminant separates these classes.
func TestDiscriminantIsTakenWhereItIsBetter(t *testing.T) {
	const n, features, classes = 120, 2, 6
	x, labels := blobs(n, features, classes)
	for i, label := range labels {
		x[i*features] = float32(label) + 0.1*x[i*features]
	}
	fit := func(opt Options) (*readout.Linear, Report) {
		linear, r, err := Fit(context.Background(), x, labels, classNames(classes), opt)
		if err != nil {
			t.Fatal(err)
		}
		return linear, r
	}
	linear, r := fit(Options{Standardize: true, Discriminant: true})
	if !r.Discriminant {
		t.Fatalf("the ridge classifier was taken: %+v", r)
	}
	at := slices.IndexFunc(r.Trials, func(t Trial) bool { return t.Alpha == r.Alpha })
	for _, trial := range r.Trials {
		if trial.Discriminant.LogLoss < r.Trials[at].Discriminant.LogLoss {
			t.Errorf("alpha %g has a log-loss of %g, the chosen %g", trial.Alpha, trial.Discriminant.LogLoss, r.Trials[at].Discriminant.LogLoss)
		}
	}
	if a := r.Trials[at].Discriminant.Accuracy; a < .95 || r.Trials[at].Accuracy > .8 {
		t.Errorf("accuracy %g, the ridge classifier's %g: not what was to be shown", a, r.Trials[at].Accuracy)
	}
	right := 0
	scores := make([]float32, linear.Columns())
	for i, label := range labels {
		linear.Scores(scores, x[i*features:(i+1)*features])
		if linear.Class(scores) == label {
			right++
		}
	}
	if right < n*95/100 {
		t.Errorf("%d of %d training samples are right", right, n)
	}

	// Without Discriminant the report has no trace of a discriminant; if both are as good, the
	// alpha and readout of the ridge classifier stay.
	if _, r := fit(Options{Standardize: true}); r.Discriminant || r.Trials[0].Discriminant != nil {
		t.Errorf("a discriminant that was not asked for: %+v", r)
	}
	x, labels = blobs(n, 8, 2)
	for i, label := range labels {
		x[8*i] = 20 * float32(label)
	}
	if _, r, err := Fit(context.Background(), x, labels, classNames(2), Options{Standardize: true, Discriminant: true}); err != nil || r.Discriminant {
		t.Errorf("both are right everywhere, and the discriminant was taken: %+v, %v", r, err)
	}
}

// TestDiscriminantOfRareClasses has a class with one sample, which leave-one-out can never
// predict, and a class without samples or mean: neither ends the fit.
func TestDiscriminantOfRareClasses(t *testing.T) {
	for _, empty := range []bool{false, true} {
		x, labels := blobs(60, 80, 3)
		for i := range labels {
			labels[i] = i % 2
		}
		if !empty {
			labels[7] = 2
		}
		_, r, err := Fit(context.Background(), x, labels, classNames(3), Options{Standardize: true, Discriminant: true})
		if err != nil {
			t.Fatal(err)
		}
		tried := slices.ContainsFunc(r.Trials, func(t Trial) bool { return t.Discriminant != nil })
		if tried == empty {
			t.Errorf("a class without a sample %v, discriminants tried %v", empty, tried)
		}
		for _, trial := range r.Trials {
			if d := trial.Discriminant; d != nil && (d.Accuracy > 59./60 || d.LogLoss != d.LogLoss) {
				t.Errorf("alpha %g: %+v", trial.Alpha, *d)
			}
		}
	}
}

func TestTemper(t *testing.T) {
	// Scores are 1/8 of log-likelihoods: labels drawn to fit exactly. Three of four samples at
	// odds of 3, all at difference ln(3)/8.
	s := dense.New(4, 2)
	for i := range 4 {
		s.Row(i)[0] = math.Log(3) / 8
	}
	tau, loss := temper(s, []int{0, 0, 0, 1}, nil, 0)
	if math.Abs(tau-8) > 8./1024 {
		t.Errorf("tau %g, want 8 within a thousandth", tau)
	}
	if want := -(3*math.Log(.75) + math.Log(.25)) / 4; math.Abs(loss-want) > 1e-6 {
		t.Errorf("loss %g, want %g", loss, want)
	}
	// With doubt in the labels, all right is no certainty: p = 1 - 1/8.
	if tau, _ := temper(s, []int{0, 0, 0, 0}, nil, 1./8); math.Abs(tau-8*math.Log(7)/math.Log(3)) > 16./1024 {
		t.Errorf("all right but for a doubt of 1/8: tau %g, want %g", tau, 8*math.Log(7)/math.Log(3))
	}
	// All right: finite. All equal, or not numbers: no result.
	if tau, loss := temper(s, []int{0, 0, 0, 0}, nil, 0); !(loss < 1e-9) || math.IsInf(tau, 0) {
		t.Errorf("all right: tau %g, loss %g", tau, loss)
	}
	for _, v := range []float64{0, math.NaN(), math.Inf(1)} {
		s := dense.New(1, 2)
		s.Row(0)[1] = v
		if tau, loss := temper(s, []int{0}, nil, 0); tau != 1 || !math.IsInf(loss, 1) {
			t.Errorf("score %g: tau %g, loss %g, want 1 and infinity", v, tau, loss)
		}
	}
}

// TestDiscriminantSingular: a sample that holds all of its class's scatter leaves no rest: no
// trial, instead of a score made of rounding.
func TestDiscriminantSingular(t *testing.T) {
	m := dense.New(2, 2)
	err := withoutSample(make([]float64, 2), []float64{0, 0}, m, 0.5, 0, 2)
	if !errors.Is(err, dense.ErrSingular) {
		t.Errorf("got %v, want ErrSingular", err)
	}
}
