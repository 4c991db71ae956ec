package readout

import (
	"fmt"
	"math"
)

// Coverage selects a set of classes from one sample's scores: each class whose probability is
// at least the class's threshold. A share Level of samples like the training samples have
// their true class in the set. A set may be empty, or have several classes.
//
// The thresholds are quantiles of the probabilities that the exact leave-one-out scores give
// the true classes: the jackknife of conformal prediction, with the probability as the score
// of conformity (Sadinle, Lei and Wasserman, "Least ambiguous set-valued classifiers", 2019).
// One readout, trained on all samples, makes the sets.
//
// So the share is not guaranteed for every distribution. A share of at least 1 - 2 (1 - Level)
// is proven for the jackknife+ (Barber, Candes, Ramdas and Tibshirani, "Predictive inference
// with the jackknife+", 2021), which needs the n readouts of leave-one-out at every
// prediction. For the jackknife the same paper proves Level less 2 sqrt(v), if a margin of e
// is added to the thresholds and leaving one sample out moves a score of a new sample by more
// than e with probability v at most; its own example without this stability covers nothing. A
// ridge classifier's scores move by its hat matrix's entry times a residual, which falls with
// n and alpha.
type Coverage struct {
	Level   float64   `json:"level"`             // above 0, below 1
	ByClass bool      `json:"by_class,omitzero"` // Level is a share of each class, not of all samples together
	Least   []float64 `json:"least"`             // the thresholds, in class order; 0: the class is in every set
	// Adapted is the level of Least after changes by labels, 1e-9 to 1 (all classes in every
	// set). 0: Level, as in the training.
	Adapted float64 `json:"adapted,omitzero"`
}

// checkCoverage reports errors, for a readout of the given name.
func (c *Coverage) checkCoverage(name string, classes int, temperature float64) error {
	switch {
	case c == nil:
		return nil
	case !(c.Level > 0 && c.Level < 1):
		return fmt.Errorf("readout: %q: coverage %v, want a share above 0 and below 1", name, c.Level)
	case len(c.Least) != classes:
		return fmt.Errorf("readout: %q: %d thresholds of coverage, want one for each of %d classes", name, len(c.Least), classes)
	case !(c.Adapted >= 0 && c.Adapted <= 1):
		return fmt.Errorf("readout: %q: coverage adapted to %v, want a share", name, c.Adapted)
	case temperature == 0:
		return fmt.Errorf("readout: %q: coverage without a temperature, want both", name)
	}
	for k, v := range c.Least {
		if !(v >= 0 && v <= 1) {
			return fmt.Errorf("readout: %q: threshold %d of coverage is %v, want a probability", name, k, v)
		}
	}
	return nil
}

// Interval converts a regression's score to a number with an interval: the true number is at
// least value + Low, and at most value + High, in a share Level of samples like the training
// samples. A share of (1 - Level) / 2 is below, and as much above.
//
// Low and High are quantiles of the exact leave-one-out residuals, the true numbers less the
// predicted numbers: the jackknife of conformal prediction, separately for each side. Coverage
// describes the proven guarantees.
type Interval struct {
	Level float64 `json:"level"` // above 0, below 1
	Low   float32 `json:"low"`   // in the unit of the number
	High  float32 `json:"high"`  // in the unit of the number; not below Low

	Cap  *float32    `json:"cap,omitempty"`  // a larger number was learned as this one; nil: none
	Clip *[2]float32 `json:"clip,omitempty"` // least and largest number: limits of the value and of both ends; nil: none
}

// limit returns the number within Clip that is nearest to x.
func (v *Interval) limit(x float32) float32 {
	switch c := v.Clip; {
	case c != nil && x < c[0]:
		return c[0]
	case c != nil && x > c[1]:
		return c[1]
	}
	return x
}

// Learned returns the number that a training learns instead of x: at most Cap.
func (v *Interval) Learned(x float64) float64 {
	if v.Cap != nil && x > float64(*v.Cap) {
		return float64(*v.Cap)
	}
	return x
}

// checkRanges reports errors in the cap and the limits, for a readout of the given name.
func (v *Interval) checkRanges(name string) error {
	if v.Cap != nil && !isFinite(*v.Cap) {
		return fmt.Errorf("readout: %q: a cap of %v, want a finite number", name, *v.Cap)
	}
	if c := v.Clip; c != nil && !(c[0] <= c[1] && isFinite(c[0]) && isFinite(c[1])) {
		return fmt.Errorf("readout: %q: values limited to %v to %v, want finite numbers in order", name, c[0], c[1])
	}
	return nil
}

func isFinite(x float32) bool { return x-x == 0 }

// checkInterval reports errors, for a readout of the given name; classes is true if the
// readout has a part only for classes.
func (v *Interval) checkInterval(name string, classes bool) error {
	switch {
	case v == nil:
		return nil
	case !(v.Level > 0 && v.Level < 1):
		return fmt.Errorf("readout: %q: an interval of coverage %v, want a share above 0 and below 1", name, v.Level)
	case !(v.Low <= v.High) || math.IsInf(float64(v.Low), 0) || math.IsInf(float64(v.High), 0):
		return fmt.Errorf("readout: %q: an interval from %v to %v, want finite numbers in order", name, v.Low, v.High)
	case classes:
		return fmt.Errorf("readout: %q: an interval, and what only classes have: a coverage of sets, answers, a temperature or a detector as class", name)
	}
	return v.checkRanges(name)
}
