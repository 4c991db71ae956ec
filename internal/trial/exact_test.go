package trial

import (
	"bufio"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestGolden compares with values of exact rational numbers (testdata/exact.py).
func TestGolden(t *testing.T) {
	f, err := os.Open("testdata/exact.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := 0
	for in := bufio.NewScanner(f); in.Scan(); lines++ {
		w := strings.Split(in.Text(), ",")
		x, _ := strconv.Atoi(w[1])
		y, _ := strconv.Atoi(w[2])
		var want []float64
		for _, text := range w[3:] {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, v)
		}
		var got []float64
		if w[0] == "p" {
			got = []float64{McNemar(x, y), Better(x, y)}
		} else {
			got = []float64{want[0], upper(x, y, want[0]), lower(x, y, want[0])}
		}
		for i := range want {
			// Lgamma of 2,100 has 16 digits of 14,000; the bisections of the golden values end at
			// 2^-40.
			if math.Abs(got[i]-want[i]) > 1e-11+1e-10*want[i] {
				t.Errorf("%s: got %v", in.Text(), got)
			}
		}
	}
	if lines < 15 {
		t.Errorf("%d golden values", lines)
	}
}

// TestErrorProbability: a shadow that is equally good, or worse by the margin, passes at most with
// the error probability: in many trials, within three standard deviations.
func TestErrorProbability(t *testing.T) {
	const trials, n, e, margin = 2000, 300, .05, .05
	rng := rand.New(rand.NewPCG(1, 2))
	better, notWorse := 0, 0
	for range trials {
		var b, c, worseB, worseC int
		for range n {
			switch u := rng.Float64(); { // equally good
			case u < .1:
				b++
			case u < .2:
				c++
			}
			switch u := rng.Float64(); { // worse by the margin
			case u < .1:
				worseB++
			case u < .15:
				worseC++
			}
		}
		if Better(b, c) <= e {
			better++
		}
		if Loss(n, worseB, worseC, e) < margin {
			notWorse++
		}
	}
	most := trials*e + 3*math.Sqrt(trials*e*(1-e))
	if float64(better) > most || float64(notWorse) > most {
		t.Errorf("of %d that must not pass, %d did as better and %d as not worse, want at most %.0f", trials, better, notWorse, most)
	}
	if better == 0 || Loss(3000, 30, 30, e) >= .02 || Better(10, 40) > .001 {
		t.Error("nothing passes: the test shows nothing")
	}
}
