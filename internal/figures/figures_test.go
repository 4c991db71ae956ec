package figures

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"math"
	"math/cmplx"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// small is a grid of milliseconds with every regime: contracting, expanding, and so large
// a step that the lower bound is -Inf.
func small() Grid {
	return Grid{Units: 13, Draws: 2, Seed: 5, Steps: 40, Every: 4, Recurrent: []float64{.01, 1}, Gamma: []float64{1e-10, 1e-3, 1}, Eps: []float64{1e-10, .01, .5}}
}

func compute(t *testing.T, g Grid, o Options) (*Radius, *Lyapunov) {
	t.Helper()
	r, err := NewRadius(t.Context(), g, o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := NewLyapunov(t.Context(), g, o)
	if err != nil {
		t.Fatal(err)
	}
	return r, l
}

// TestRadius: an odd antisymmetric matrix of 3 units has the eigenvalues 0 and
// +-i sqrt(a^2 + b^2 + c^2) of its entries, so all of Fig. 2 has a closed form.
func TestRadius(t *testing.T) {
	g := small()
	g.Units = 3
	f, err := NewRadius(t.Context(), g, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range f.Rows {
		w, err := drawWeights(3, r.Recurrent, g.Seed+uint64(r.Draw))
		if err != nil {
			t.Fatal(err)
		}
		rho := math.Sqrt(w.wh[1]*w.wh[1] + w.wh[2]*w.wh[2] + w.wh[5]*w.wh[5])
		if math.Abs(r.Rho-rho) > 1e-14*rho { // the solver's rounding on 3 units
			t.Errorf("%v: rho %.17g, want %.17g", r.Cell, r.Rho, rho)
		}
		want := math.Sqrt(1 + r.Eps*r.Eps*r.Gamma*r.Gamma - 2*r.Eps*r.Gamma + r.Eps*r.Eps*rho*rho)
		if math.Abs(1+r.Excess-want) > 1e-15*want*4 || math.Abs(r.Numeric-want) > 1e-14*want {
			t.Errorf("%v: rho(J) %.17g, from eigenvalues %.17g, Corollary 1 says %.17g", r.Cell, 1+r.Excess, r.Numeric, want)
		}
	}
	if err := f.Check(); err != nil {
		t.Error(err)
	}
}

// TestExcess: for rho(J) - 1 far below a rounding of 1, compares with its first terms;
// the next term is 1e-18 of them.
func TestExcess(t *testing.T) {
	const eps, gamma, rho = 1e-10, 1e-9, 1e-3
	want := -eps*gamma + eps*eps*(gamma*gamma+rho*rho)/2
	if got := excess(eps, gamma, rho); math.Abs(got/want-1) > 1e-15 {
		t.Errorf("rho(J) - 1 = %g, want %g", got, want)
	}
}

// TestExponents compares the exponents with their definition: the logarithms of the
// moduli of the eigenvalues of J(t) = I + eps D(t) (Wh - gamma I), along states computed
// by matrix products.
func TestExponents(t *testing.T) {
	g := small()
	_, f := compute(t, g, Options{})
	for _, r := range f.Rows {
		w, err := drawWeights(g.Units, r.Recurrent, g.Seed+uint64(r.Draw))
		if err != nil {
			t.Fatal(err)
		}
		n := g.Units
		m := mat.NewDense(n, n, append([]float64(nil), w.wh...))
		for i := range n {
			m.Set(i, i, -r.Gamma)
		}
		h := mat.NewVecDense(n, nil)
		var most, least, count float64
		stride := g.Every
		if r.Eps*r.Rho >= .1 {
			stride = 1
		}
		for step, u := range g.drive(r.Draw) {
			var z mat.VecDense
			z.MulVec(m, h)
			z.AddScaledVec(&z, u, mat.NewVecDense(n, w.input))
			z.AddVec(&z, mat.NewVecDense(n, w.bias))
			j := mat.NewDense(n, n, nil)
			for i := range n {
				v := math.Tanh(z.AtVec(i))
				for k := range n {
					j.Set(i, k, r.Eps*(1-v*v)*m.At(i, k))
				}
				j.Set(i, i, j.At(i, i)+1)
				h.SetVec(i, h.AtVec(i)+r.Eps*v)
			}
			if step%stride != stride/2 {
				continue
			}
			values, err := eigenvalues(j)
			if err != nil {
				t.Fatal(err)
			}
			hi, lo := 0., math.Inf(1)
			for _, v := range values {
				hi, lo = max(hi, cmplx.Abs(v)), min(lo, cmplx.Abs(v))
			}
			most, least, count = most+math.Log(hi), least+math.Log(lo), count+1
		}
		if r.Jacobians != int(count) || stride > 1 && count != 10 {
			t.Errorf("%v: %d Jacobians, want %v", r.Cell, r.Jacobians, count)
		}
		// ln |lambda| of a J near I is accurate to some roundings of 1; rounding grows
		// along the 40 states if eps is .5.
		if e := math.Abs(r.Most - most/count); e > 1e-12 {
			t.Errorf("%v: MLLE %g, by definition %g", r.Cell, r.Most, most/count)
		}
		if e := math.Abs(r.Least - least/count); e > 1e-12 {
			t.Errorf("%v: smallest exponent %g, by definition %g", r.Cell, r.Least, least/count)
		}
	}
}

// TestTinyExponents: with negligible Wh, ln |lambda| = -eps gamma d for the diagonal d of
// D; far below the precision of ln of an eigenvalue of J.
func TestTinyExponents(t *testing.T) {
	g := small()
	g.Recurrent, g.Gamma, g.Eps, g.Steps, g.Every, g.Draws = []float64{1e-15}, []float64{1e-5}, []float64{1e-10}, 1, 1, 1
	_, f := compute(t, g, Options{})
	w, err := drawWeights(g.Units, 1e-15, g.Seed)
	if err != nil {
		t.Fatal(err)
	}
	least := 1.
	for i := range g.Units {
		v := math.Tanh(w.bias[i] + w.input[i]*g.drive(0)[0])
		least = min(least, 1-v*v)
	}
	want := -1e-15 * least
	if got := f.Rows[0].Most; math.Abs(got/want-1) > 1e-9 { // Wh is 1e-10 of gamma
		t.Errorf("MLLE %g, want %g", got, want)
	}
}

func TestBounds(t *testing.T) {
	_, f := compute(t, small(), Options{})
	if err := f.Check(); err != nil {
		t.Fatal(err)
	}
	infinite := 0
	for _, r := range f.Rows {
		if want := math.Log(1 + r.Eps*(r.Rho+r.Gamma)); math.Abs(r.Upper-want) > 1e-15 {
			t.Errorf("%v: upper bound %g, want %g", r.Cell, r.Upper, want)
		}
		if r.Eps*(r.Rho+r.Gamma) >= 1 {
			infinite++
			if !math.IsInf(r.Lower, -1) {
				t.Errorf("%v: lower bound %g, want -Inf", r.Cell, r.Lower)
			}
		} else if want := math.Log(1 - r.Eps*(r.Rho+r.Gamma)); math.Abs(r.Lower-want) > 1e-15 {
			t.Errorf("%v: lower bound %g, want %g", r.Cell, r.Lower, want)
		}
	}
	if infinite == 0 {
		t.Error("no cell has the lower bound -Inf: the grid of this test misses a case")
	}
}

// TestChecksFail: a value outside the bounds is reported, with its cell; NaN as well.
func TestChecksFail(t *testing.T) {
	for name, spoil := range map[string]func(*LyapunovRow){
		"above": func(r *LyapunovRow) { r.Most = math.Nextafter(r.Upper, 2) },
		"below": func(r *LyapunovRow) { r.Lower = -1e-30; r.Least = -2e-30 },
		"nan":   func(r *LyapunovRow) { r.Most = math.NaN() },
	} {
		_, l := compute(t, small(), Options{})
		spoil(&l.Rows[7])
		err := l.Check()
		if err == nil || !strings.Contains(err.Error(), "Proposition 2 does not hold at "+l.Rows[7].Cell.String()) {
			t.Errorf("%s: %v", name, err)
		}
		if n := strings.Count(string(l.CSV()), ",false\n"); n != 1 {
			t.Errorf("%s: %d lines of the CSV file say false, want 1", name, n)
		}
	}
	for name, spoil := range map[string]func(*RadiusRow){
		"eigenvalue": func(r *RadiusRow) { r.Error = 1e-11 },
		"radius":     func(r *RadiusRow) { r.Numeric += 1e-11 },
		"nan":        func(r *RadiusRow) { r.Error = math.NaN() },
	} {
		f, _ := compute(t, small(), Options{})
		spoil(&f.Rows[9])
		err := f.Check()
		if err == nil || !strings.Contains(err.Error(), "Corollary 1 do not hold at "+f.Rows[9].Cell.String()) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSameBits: threads change no file.
func TestSameBits(t *testing.T) {
	r1, l1 := compute(t, small(), Options{Threads: 1})
	r3, l3 := compute(t, small(), Options{Threads: 3})
	if !bytes.Equal(r1.CSV(), r3.CSV()) || !bytes.Equal(l1.CSV(), l3.CSV()) {
		t.Error("the numbers depend on the number of threads")
	}
	for name, pair := range map[string][2]Picture{"radius": {r1.Picture(), r3.Picture()}, "lyapunov": {l1.Picture(), l3.Picture()}} {
		for kind, of := range map[string]func(Picture) ([]byte, error){"png": Picture.PNG, "svg": Picture.SVG} {
			a, err1 := of(pair[0])
			b, err2 := of(pair[1])
			if err := errors.Join(err1, err2); err != nil || !bytes.Equal(a, b) || len(a) == 0 {
				t.Errorf("%s: two pictures differ as %s (%v)", name, kind, err)
			}
		}
	}
}

// TestCSVExact: a reader of the file gets the computed numbers exactly.
func TestCSVExact(t *testing.T) {
	_, f := compute(t, small(), Options{})
	lines, err := csv.NewReader(bytes.NewReader(f.CSV())).ReadAll()
	if err != nil || len(lines) != 1+len(f.Rows) {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	for i, r := range f.Rows {
		for k, want := range []float64{r.Recurrent, r.Gamma, r.Eps, float64(r.Draw), r.Rho, r.Most, r.Least, r.Lower, r.Upper} {
			if got, err := strconv.ParseFloat(lines[i+1][k], 64); err != nil || got != want {
				t.Errorf("line %d, %s: %s, want %g", i+2, lines[0][k], lines[i+1][k], want)
			}
		}
	}
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	_, err := NewLyapunov(ctx, small(), Options{Threads: 1, Progress: func(done, total int64, _ string) {
		if calls++; done == 3 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) || calls != 3 {
		t.Errorf("%d cells done, error %v, want 3 and a canceled context", calls, err)
	}
}

func TestGridRefusals(t *testing.T) {
	for want, spoil := range map[string]func(*Grid){
		"units = 1":             func(g *Grid) { g.Units = 1 },
		"draws = 0":             func(g *Grid) { g.Draws = 0 },
		"steps = -1":            func(g *Grid) { g.Steps = -1 },
		"every = 41":            func(g *Grid) { g.Every = 41 },
		"no gamma":              func(g *Grid) { g.Gamma = nil },
		"eps NaN":               func(g *Grid) { g.Eps = []float64{math.NaN()} },
		"recurrent scale 0, ":   func(g *Grid) { g.Recurrent = []float64{0} },
		"want ascending values": func(g *Grid) { g.Eps = []float64{.1, .1} },
		"more than 65536 cells": func(g *Grid) { g.Eps, g.Gamma = make([]float64, 1000), make([]float64, 1000) },
	} {
		g := small()
		spoil(&g)
		if len(g.Gamma) == 1000 {
			for i := range g.Gamma {
				g.Gamma[i], g.Eps[i] = 1e-3*float64(i+1), 1e-3*float64(i+1)
			}
		}
		if _, err := NewRadius(t.Context(), g, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	for _, g := range []Grid{PaperGrid(1), QuickGrid(1)} {
		if err := g.Validate(); err != nil {
			t.Error(err)
		}
	}
}

// TestPortraits: the limits of Fig. 1, each from its equation.
func TestPortraits(t *testing.T) {
	f := NewPortraits()
	norm := func(h [2]float64) float64 { return math.Hypot(h[0], h[1]) }
	for _, p := range f.Panels {
		for _, o := range p.Orbits {
			if len(o.Points) != PhaseSteps/PhaseEvery+1 {
				t.Fatalf("%s %s: %d points", p.Model, o.Start, len(o.Points))
			}
			first, last := o.Points[0], o.Points[len(o.Points)-1]
			switch p.Model {
			case "esn-esp":
				// Eigenvalues .7 +- .1i: 20 units of time at a rate of at least .3.
				if norm(last) > norm(first)*math.Exp(-.3*20) {
					t.Errorf("%s %s ends at %v, want it forgotten", p.Model, o.Start, last)
				}
			case "esn-no-esp":
				// A fixed point: h = tanh(M h), away from 0.
				for i := range last {
					if e := math.Abs(last[i] - math.Tanh(p.m[i][0]*last[0]+p.m[i][1]*last[1])); e > 1e-4 || norm(last) < 1 {
						t.Errorf("%s %s ends at %v, want a fixed point away from 0", p.Model, o.Start, last)
					}
				}
			case "resn":
				// The difference of the units decays at rate 2, the sum remains.
				if math.Abs(last[0]-last[1]) > 1e-9 || norm(last) < .1*norm(first) {
					t.Errorf("%s %s ends at %v, want the line h1 = h2, not 0", p.Model, o.Start, last)
				}
			case "eusn":
				// ln cosh(1.5 h1) + ln cosh(1.5 h2) is conserved in continuous
				// time; Euler's error is of the order of eps, over 20 units.
				energy := func(h [2]float64) float64 { return math.Log(math.Cosh(1.5*h[0])) + math.Log(math.Cosh(1.5*h[1])) }
				for _, h := range o.Points {
					if math.Abs(energy(h)/energy(first)-1) > .03 {
						t.Fatalf("%s %s: energy %g at %v, want %g", p.Model, o.Start, energy(h), h, energy(first))
					}
				}
			}
		}
	}
	if got, want := string(f.CSV()[:46]), "model,start,step,h1,h2\nesn-esp,u0,0,0.1,0.1\nesn"; got != want[:46] {
		t.Errorf("CSV begins %q", got)
	}
}

// TestDrive: the input is uniform in [-.5, .5], and different for each draw.
func TestDrive(t *testing.T) {
	g := PaperGrid(1)
	g.Steps = 10000
	a, b := g.drive(0), g.drive(1)
	sum, squares, equal := 0., 0., 0
	for i, u := range a {
		if u < -.5 || u > .5 {
			t.Fatalf("input %g", u)
		}
		if sum, squares = sum+u, squares+u*u; u == b[i] {
			equal++
		}
	}
	// Deviations of the mean .0029 and of the variance .00075; five of each.
	if n := float64(g.Steps); math.Abs(sum/n) > .015 || math.Abs(squares/n-1./12) > .004 || equal > 0 {
		t.Errorf("mean %g, variance %g, want 0 and 1/12; %d inputs are those of the other draw", sum/n, squares/n, equal)
	}
}
