package compare

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

func isNear(a, b, relative float64) bool { return math.Abs(a-b) <= relative*max(1, math.Abs(b)) }

// SciPy's figures, computed by testdata/ranks.py.
func TestRanksAgainstSciPy(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "ranks.json"))
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Cases []struct {
			Scores       [][]float64
			Ranks        []float64
			Statistic, P float64
		}
		Quantiles map[string]float64
	}
	if err := json.Unmarshal(text, &golden); err != nil {
		t.Fatal(err)
	}
	for i, c := range golden.Cases {
		for j, r := range averageRanks(c.Scores) {
			if !isNear(r, c.Ranks[j], 1e-12) {
				t.Errorf("case %d: rank %d is %g, want %g", i, j, r, c.Ranks[j])
			}
		}
		// Rounding of a few sums of ranks.
		if s, p := friedman(c.Scores); !isNear(s, c.Statistic, 1e-11) || !isNear(p, c.P, 1e-11) {
			t.Errorf("case %d: Friedman %g, p %g, want %g, %g", i, s, p, c.Statistic, c.P)
		}
	}
	for k, want := range golden.Quantiles {
		n, _ := strconv.Atoi(k)
		// SciPy integrates to about 1e-9.
		if q := studentisedRange(.95, n); !isNear(q, want, 1e-8) {
			t.Errorf("q(.05, %s) is %.10g, want %.10g", k, q, want)
		}
	}
	if len(golden.Cases) == 0 || len(golden.Quantiles) == 0 {
		t.Error("nothing compared")
	}
}

// Demšar's table 5(a) for .05 has q/sqrt 2.
func TestCriticalDifference(t *testing.T) {
	for k, want := range map[int]float64{2: 1.960, 3: 2.343, 4: 2.569, 5: 2.728, 10: 3.164} {
		n := 14
		// The table truncates its last digits.
		if q := criticalDifference(k, n) / math.Sqrt(float64(k*(k+1))/float64(6*n)); math.Abs(q-want) > .001 {
			t.Errorf("k %d: %.4f, want %.3f", k, q, want)
		}
	}
}

func TestTies(t *testing.T) {
	if got, want := rankScores([]float64{.5, .9, .5, .9, .1, .5}), []float64{4, 1.5, 4, 1.5, 6, 4}; !slices.Equal(got, want) {
		t.Errorf("ranks %v, want %v", got, want)
	}
	if s, p := friedman([][]float64{{1, 1, 1}, {2, 2, 2}}); s != 0 || p != 1 {
		t.Errorf("all equal: %g, %g", s, p)
	}
}
