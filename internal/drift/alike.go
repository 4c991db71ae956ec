package drift

import (
	"math"
	"slices"
)

const (
	// MostWidth is how many values are one at most.
	MostWidth = 1 << 20
	// Waiting is how many independent values, or so many more that are alike, there are before
	// a detector judges one, once: until then it is not known how much they are alike.
	Waiting = 1024

	scales = 11 // sums of 1, 2, 4, ... values
	enough = 32 // sums of a scale from which its variance is known
	low    = 4  // sums below h/low are low: nothing has begun to change
	memory = 16 // values from which the restlessness of the moment is known
)

// Alike says how much values that follow each other are alike: how much their sums vary.
type Alike struct {
	Values  uint64          `json:"values"`
	Sums    [scales]int64   `json:"sums"`    // of the last values, one after the other 1, 2, 4, ..., in 1/Unit
	Squares [scales]float64 `json:"squares"` // of those that are complete, added up, in 1/Unit^2
}

func (a *Alike) add(z int64) {
	a.Values++
	for s := range a.Sums {
		if a.Sums[s] += z; a.Values>>s<<s == a.Values {
			a.Squares[s] += float64(float64(a.Sums[s]) * float64(a.Sums[s]))
			a.Sums[s] = 0
		}
	}
}

// at is the variance of sums of 2^s values, of independent ones 1.
func (a *Alike) at(s int) float64 {
	return a.Squares[s] / (float64(a.Values>>s<<s) * (Unit * Unit))
}

// much reports whether neighbours are so much alike that values are put together.
func (a *Alike) much() bool { return a.at(1) > 1.2 }

// grows reports whether sums vary the more the more values they have, as far as is known:
// then nobody can say by how much.
func (a *Alike) grows() bool {
	s := scales - 1
	for s > 0 && a.Values>>s < enough {
		s--
	}
	return s >= 2 && s < scales-1 && a.at(s) > 1.5*a.at(s-2)
}

// inflation is what the thresholds are multiplied by: as many times as much as sums of
// independent values those of these vary, at the scale at which they do most. A variance of
// n sums is known to a part of sqrt(2/n): where it is above 1 by more than two of these, it
// is taken two of these larger. surely is the factor of those
// scales alone where it is above 1 by more than four, 1 if there are none.
func (a *Alike) inflation() (factor, surely float64) {
	factor, surely = 1, 1
	for s := 1; s < scales && a.Values>>s >= enough; s++ {
		v := a.at(s)
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

// neighbours is how much values are alike that follow each other; sorted are the same
// values. Equal ones have one rank, that of their middle.
func neighbours(x, sorted []float32) (a Alike) {
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
		a.add(z(v))
	}
	return a
}
