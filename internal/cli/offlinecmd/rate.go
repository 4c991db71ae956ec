package offlinecmd

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/timeunit"
)

// rateFlag is a sampling rate in Hz; 0: none was given.
type rateFlag float64

func (r *rateFlag) Type() string { return "rate" }

func (r *rateFlag) String() string {
	if *r == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(*r), 'g', -1, 64) + "Hz"
}

// rateUnits are the units of a rate, longer names first.
var rateUnits = []struct {
	name  string
	hertz float64
}{{"MHz", 1e6}, {"kHz", 1e3}, {"Hz", 1}, {"", 1}}

func (r *rateFlag) Set(text string) error {
	for _, u := range rateUnits {
		number, is := strings.CutSuffix(text, u.name)
		if !is {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err == nil {
			err = timeunit.CheckRate(v * u.hertz)
		}
		if err != nil {
			break
		}
		*r = rateFlag(v * u.hertz)
		return nil
	}
	return fmt.Errorf("want a sampling rate of %g to %g Hz, such as 100Hz or 25.6kHz", timeunit.LowestRate, timeunit.HighestRate)
}
