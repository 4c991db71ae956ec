package readout

import (
	"math"
	"strings"
	"testing"
)

func TestAbstainRuleIsChecked(t *testing.T) {
	for want, r := range map[string]AbstainRule{
		"largest error of 0":   {0, .95, .5},
		"largest error of NaN": {math.NaN(), .95, .5},
		"confidence 1":         {.1, 1, .5},
		"threshold 1.5":        {.1, .9, 1.5},
		"threshold NaN":        {.1, .9, math.NaN()},
	} {
		if err := r.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
