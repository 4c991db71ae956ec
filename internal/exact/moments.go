package exact

import (
	"math"

	"github.com/eusn-stream/eusn-stream/internal/dense"
)

// Moments returns the sums about the means of all samples, each rounded once: for each class a
// row of sums, and the lower triangle of the outer products.
func (s *Sums) Moments() (mean []float64, sums, outer dense.Matrix) {
	f, n := s.features, s.Samples()
	mean, sums, outer = make([]float64, f), dense.New(len(s.counts), f), dense.New(f, f)
	// With c near the mean, n samples, S their sum and O the sum of products,
	// the sum about c is O_ij - c_i S_j - S_i c_j + n c_i c_j = O_ij - c_i S_j + c_j (n c_i - S_i).
	center, sum, rest := make([]fixed, f), make([]fixed, f), make([]fixed, f)
	for j := range f {
		for k := range s.counts {
			sum[j] = sum[j].plus(s.sum(k, j))
		}
		mean[j] = multiple(sum[j].float(-unit) / float64(n))
		center[j] = fixedFloat(mean[j])
		rest[j] = center[j].times(fixed{uint64(n)}).minus(sum[j])
		for k, c := range s.counts {
			sums.Row(k)[j] = s.sum(k, j).minus(center[j].times(fixed{uint64(c)})).float(-unit)
		}
	}
	dense.Parallel((f+1)/2, 8, func(lo, hi int) {
		row := func(i int) {
			src, dst := s.outer[3*(i*(i+1)/2):], outer.Row(i)
			for j := range i + 1 {
				o := fixed{src[3*j], src[3*j+1], src[3*j+2]}
				dst[j] = o.minus(center[i].times(sum[j])).plus(center[j].times(rest[i])).float(-2 * unit)
			}
		}
		for i := lo; i < hi; i++ {
			row(i)
			if last := f - 1 - i; last != i {
				row(last)
			}
		}
	})
	return mean, sums, outer
}

func (s *Sums) sum(class, j int) fixed {
	at := s.sums[3*(class*s.features+j):]
	return fixed{at[0], at[1], at[2]}
}

// multiple returns the multiple of 2^-unit nearest to x.
func multiple(x float64) float64 {
	if math.Abs(x) >= 0x1p-11 {
		return x // no digits below
	}
	return math.Ldexp(math.RoundToEven(math.Ldexp(x, unit)), -unit)
}

// fixedFloat returns a multiple of 2^-unit in units of 2^-unit.
func fixedFloat(x float64) fixed {
	if math.Abs(x) < 0x1p-11 {
		return fixedOf(int64(math.Ldexp(x, unit)), 0)
	}
	digits, e := math.Frexp(x) // digits * 2^53 is an integer
	return fixedOf(int64(math.Ldexp(digits, 53)), uint(e-53+unit))
}
