package drift

import (
	"math"
	"slices"
)

const (
	// MostWidth is the maximum number of values that are averaged into one.
	MostWidth = 1 << 20
	// Waiting is the number of independent values, or the equivalent number of dependent values,
	// before a detector's first verdict: until then the dependence is unknown.
	Waiting = 1024

	scales     = 11 // sums of 1, 2, 4, ... values
	enoughSums = 32 // number of sums of a scale that gives its variance
	lowPart    = 4  // a sum below h/lowPart is low: no change has started
	memory     = 16 // number of values that gives the present deviation
)

// Dependence measures how much successive values depend on each other: how much their sums vary.
type Dependence struct {
	Values  uint64          `json:"values"`
	Sums    [scales]int64   `json:"sums"`    // of the last 1, 2, 4, ... values, in 1/Unit
	Squares [scales]float64 `json:"squares"` // sum of the squares of complete sums, in 1/Unit^2
}

func (a *Dependence) addValue(z int64) {
	a.Values++
	for s := range a.Sums {
		if a.Sums[s] += z; a.Values>>s<<s == a.Values {
			a.Squares[s] += float64(float64(a.Sums[s]) * float64(a.Sums[s]))
			a.Sums[s] = 0
		}
	}
}

// variance returns the variance of sums of 2^s values; independent values have 1.
func (a *Dependence) variance(s int) float64 {
	return a.Squares[s] / (float64(a.Values>>s<<s) * (Unit * Unit))
}

// needsAveraging reports whether neighbors depend so much on each other that values are averaged.
func (a *Dependence) needsAveraging() bool { return a.variance(1) > 1.2 }

// isGrowing reports whether, as far as known, the variance still grows with the number of values:
// the factor is then unknown.
func (a *Dependence) isGrowing() bool {
	s := scales - 1
	for s > 0 && a.Values>>s < enoughSums {
		s--
	}
	return s >= 2 && s < scales-1 && a.variance(s) > 1.5*a.variance(s-2)
}

// inflation returns the factor of the thresholds: the variance of these sums divided by the
// variance for independent values, at the scale with the maximum. The relative standard error of a
// variance of n sums is sqrt(2/n): a variance more than two standard errors above 1 is increased by
// two standard errors. surely is the maximum over the scales whose variance is more than four
// standard errors above 1; without these, it is 1.
func (a *Dependence) inflation() (factor, surely float64) {
	factor, surely = 1, 1
	for s := 1; s < scales && a.Values>>s >= enoughSums; s++ {
		v := a.variance(s)
		if off := 2 * math.Sqrt(2/float64(a.Values>>s)); v > 1+off {
			sure := v > 1+2*off
			if v *= 1 + off; sure {
				surely = max(surely, v)
			}
		}
		factor = max(factor, v)
	}
	return factor, surely
}

// measureDependence returns the dependence of successive values; sorted has the same values. Equal
// values have one rank, the middle of their ranks.
func measureDependence(x, sorted []float32) (a Dependence) {
	n := len(x)
	z := func(v float32) int64 {
		from, _ := slices.BinarySearch(sorted, v)
		to, _ := slices.BinarySearchFunc(sorted, v, func(e, v float32) int {
			if e <= v {
				return -1
			}
			return 1
		})
		return int64(normal[(from+to)*grid/(2*n)])
	}
	for _, v := range x {
		a.addValue(z(v))
	}
	return a
}
