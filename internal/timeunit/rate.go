package timeunit

import "fmt"

// Sampling rates that are accepted, Hz: from a sample in twelve days to one in a
// nanosecond, which is what times count in.
const (
	LowestRate  = 1e-6
	HighestRate = 1e9
)

// CheckRate refuses what is no sampling rate in Hz.
func CheckRate(hertz float64) error {
	if !(hertz >= LowestRate && hertz <= HighestRate) {
		return fmt.Errorf("sampling rate %g Hz, want %g to %g", hertz, LowestRate, HighestRate)
	}
	return nil
}
