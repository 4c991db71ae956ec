package kernel

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Within reports whether all values are numbers from -limit to limit, at vector
// speed if the machine has kernels.
func Within(values []float32, limit float32) bool {
	if s := Fastest(); s != nil && len(values) > 0 {
		return s.Within(&values[0], len(values), limit)
	}
	for _, x := range values {
		if !(x >= -limit && x <= limit) {
			return false
		}
	}
	return true
}

// Fastest is the machine's best set of kernels, nil if the machine has none.
var Fastest = sync.OnceValue(func() *Set {
	if all := Levels(); len(all) > 0 {
		return all[0]
	}
	return nil
})

// MeasurePeak measures, for about d, the floating-point operations a second of
// one thread of this machine in the fused multiply-adds of a vector engine's
// kind (a multiply-add is two), for comparison with an engine's rate. The result
// is the median of bursts of about 0.1 ms, which a busy machine disturbs less
// than the mean.
func MeasurePeak(kind string, d time.Duration) (flops float64, err error) {
	for _, s := range Levels() {
		if s.Name != kind {
			continue
		}
		var rates []float64
		for start := time.Now(); len(rates) == 0 || time.Since(start) < d; {
			at := time.Now()
			done := s.Peak(2e7)
			rates = append(rates, done/time.Since(at).Seconds())
		}
		slices.Sort(rates)
		return rates[len(rates)/2], nil
	}
	return 0, fmt.Errorf("kernel: no vector engine %q on this machine to measure the peak of", kind)
}
