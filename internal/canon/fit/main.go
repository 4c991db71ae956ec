// Command fit computes the coefficients of canon.Tanh: for each of the 16
// intervals the polynomial of degree 5 with float32 coefficients whose largest
// relative error against tanh, evaluated in float32 as canon.Tanh does, is
// smallest.
//
// For each interval: Remez exchange in float64, then the coefficients are
// rounded to float32 one at a time from the highest, the rest refitted after
// each, then a search over the last bits of the low coefficients with the real
// float32 evaluation. The result is part of the canonical arithmetic: changing
// it changes every state of every model.
package main

import (
	"flag"
	"fmt"
	"log"
	"math"
	"os"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/canon"
)

const degree = 5

func main() {
	out := flag.String("o", "", "file to write (default: standard output)")
	flag.Parse()
	var table [degree + 1][16]float32
	worst := 0.0
	for q := range 16 {
		lo, hi := edges(q)
		fixed := map[int]float64{}
		if q == 0 {
			fixed[0], fixed[1] = 0, 1 // exact at 0 and for tiny x
		}
		c := search(lo, hi, roundAll(lo, hi, fixed), len(fixed) > 0)
		e := worstError(lo, hi, c, 200_000)
		fmt.Fprintf(os.Stderr, "[%.6f, %.6f)  max relative error %.3g\n", lo, hi, e)
		worst = max(worst, e)
		for k := range c {
			table[k][(q+9)&15] = c[k]
		}
	}
	text := render(table)
	fmt.Fprintf(os.Stderr, "largest: %.4g\n", worst)
	if *out == "" {
		fmt.Print(text)
	} else if err := os.WriteFile(*out, []byte(text), 0o644); err != nil {
		log.Fatal(err)
	}
}

// edges gives the |x| range of interval q, counted from zero.
func edges(q int) (lo, hi float64) {
	at := func(q int) float64 {
		u := math.Float32bits(canon.TanhShift) + uint32(q)<<21
		return float64(math.Float32frombits(u)) - float64(canon.TanhShift)
	}
	return at(q), min(at(q+1), float64(canon.Saturation))
}

// roundAll fits, rounds the highest free coefficient, fits the rest, and so on.
func roundAll(lo, hi float64, fixed map[int]float64) []float32 {
	for k := degree; k >= 0; k-- {
		if _, ok := fixed[k]; !ok {
			fixed[k] = float64(float32(remez(lo, hi, fixed)[k]))
		}
	}
	c := make([]float32, degree+1)
	for k := range c {
		c[k] = float32(fixed[k])
	}
	return c
}

// remez finds the coefficients with the least maximal relative error on
// [lo, hi], those in fixed held.
func remez(lo, hi float64, fixed map[int]float64) []float64 {
	var free []int
	for k := range degree + 1 {
		if _, ok := fixed[k]; !ok {
			free = append(free, k)
		}
	}
	n := len(free) + 1
	edge := lo
	if lo == 0 {
		lo = hi / 4096 // both sides vanish at 0
	}
	xs := make([]float64, n)
	for i := range xs {
		xs[i] = (lo+hi)/2 - (hi-lo)/2*math.Cos(math.Pi*float64(i)/float64(n-1))
	}
	c := make([]float64, degree+1)
	for k, v := range fixed {
		c[k] = v
	}
	for range 40 {
		a := make([][]float64, n)
		for i, x := range xs {
			t := math.Tanh(x)
			row := make([]float64, n+1)
			rhs := t
			for k, v := range fixed {
				rhs -= v * math.Pow(x-edge, float64(k))
			}
			for j, k := range free {
				row[j] = math.Pow(x-edge, float64(k))
			}
			row[n-1] = t * float64(1-2*(i&1))
			row[n] = rhs
			a[i] = row
		}
		s := solve(a)
		for j, k := range free {
			c[k] = s[j]
		}
		if !exchange(xs, edge, lo, hi, c) {
			break
		}
	}
	return c
}

// exchange moves each reference point to the extremum of the error around it.
func exchange(xs []float64, edge, lo, hi float64, c []float64) (moved bool) {
	const grid = 4000
	err := func(x float64) float64 { return eval64(c, x-edge)/math.Tanh(x) - 1 }
	n := len(xs)
	next := make([]float64, n)
	for i, x := range xs {
		from, to := lo, hi
		if i > 0 {
			from = (xs[i-1] + x) / 2
		}
		if i < n-1 {
			to = (x + xs[i+1]) / 2
		}
		sign := math.Copysign(1, err(x))
		best, at := math.Inf(-1), x
		for g := range grid + 1 {
			y := from + (to-from)*float64(g)/grid
			if e := sign * err(y); e > best {
				best, at = e, y
			}
		}
		next[i] = at
		moved = moved || math.Abs(at-x) > 1e-6*(hi-lo)
	}
	copy(xs, next)
	return moved
}

// search tries neighbors of the low coefficients in float32 evaluation.
func search(lo, hi float64, c []float32, keepLow bool) []float32 {
	best := worstError(lo, hi, c, 20_000)
	first := 0
	if keepLow {
		first = 2
	}
	for improved := true; improved; {
		improved = false
		for k := first; k <= degree; k++ {
			for _, d := range []int32{-8, -4, -2, -1, 1, 2, 4, 8} {
				try := append([]float32(nil), c...)
				try[k] = math.Float32frombits(uint32(int32(math.Float32bits(c[k])) + d))
				if e := worstError(lo, hi, try, 20_000); e < best {
					best, c, improved = e, try, true
				}
			}
		}
	}
	return c
}

// worstError is the largest relative error of the float32 evaluation over
// evenly spaced arguments, the ends included.
func worstError(lo, hi float64, c []float32, points int) float64 {
	worst := 0.0
	for i := range points + 1 {
		x := float32(lo + (hi-lo)*float64(i)/float64(points))
		if x == 0 {
			continue
		}
		r := c[degree]
		for k := degree - 1; k >= 0; k-- {
			r = canon.FMA(r, x-float32(lo), c[k])
		}
		t := math.Tanh(float64(x))
		worst = max(worst, math.Abs(float64(min(r, 1))-t)/t)
	}
	return worst
}

func eval64(c []float64, x float64) float64 {
	r := 0.0
	for k := degree; k >= 0; k-- {
		r = r*x + c[k]
	}
	return r
}

// solve is Gaussian elimination with pivoting on rows [A | b].
func solve(a [][]float64) []float64 {
	n := len(a)
	for i := range n {
		p := i
		for r := i + 1; r < n; r++ {
			if math.Abs(a[r][i]) > math.Abs(a[p][i]) {
				p = r
			}
		}
		a[i], a[p] = a[p], a[i]
		for r := i + 1; r < n; r++ {
			f := a[r][i] / a[i][i]
			for k := i; k <= n; k++ {
				a[r][k] -= f * a[i][k]
			}
		}
	}
	x := make([]float64, n)
	for i := n - 1; i >= 0; i-- {
		s := a[i][n]
		for k := i + 1; k < n; k++ {
			s -= a[i][k] * x[k]
		}
		x[i] = s / a[i][i]
	}
	return x
}

func render(t [degree + 1][16]float32) string {
	var b strings.Builder
	b.WriteString("// Code generated by go run ./fit; DO NOT EDIT.\n\npackage canon\n\n")
	b.WriteString("// TanhTable holds, for each power of the distance to the interval's\n// lower edge, the coefficient of each interval.\n")
	b.WriteString("// The interval of |x| is bits 21..24 of |x| + TanhShift, so the first interval\n// (from zero) is at index 9.\n")
	b.WriteString("var TanhTable = [6][16]float32{\n")
	for _, row := range t {
		b.WriteString("\t{")
		for i, v := range row {
			if i > 0 {
				b.WriteString(", ")
			}
			fmt.Fprintf(&b, "%x", v)
		}
		b.WriteString("},\n")
	}
	b.WriteString("}\n")
	return b.String()
}
