package timeunit

import "fmt"

// Accepted sampling rates, Hz: from a sample in twelve days to one in a nanosecond, the
// resolution of times.
const (
	LowestRate  = 1e-6
	HighestRate = 1e9
)

// CheckRate refuses an invalid sampling rate in Hz.
func CheckRate(hertz float64) error {
	if !(hertz >= LowestRate && hertz <= HighestRate) {
		return fmt.Errorf("sampling rate %g Hz, want %g to %g", hertz, LowestRate, HighestRate)
	}
	return nil
}
