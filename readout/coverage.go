package readout

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/canon"
	"github.com/eusn-stream/eusn-stream/internal/dense"
	"github.com/eusn-stream/eusn-stream/readout/abstain"
	"github.com/eusn-stream/eusn-stream/readout/adaptive"
	"github.com/eusn-stream/eusn-stream/readout/quality"
)

// Coverage makes a set of classes of one sample's scores: those whose probability is
// at least the class's threshold. A share Level of samples like those learnt from have
// their true class in the set. A set may be empty, or have several classes.
//
// The thresholds are quantiles of the probabilities that the exact leave-one-out
// scores give the true classes: the jackknife of conformal prediction, with the
// probability as the score of conformity (Sadinle, Lei and Wasserman, "Least ambiguous
// set-valued classifiers", 2019). One readout, learnt from all samples, makes the sets.
//
// So the share is not guaranteed for every distribution. That of at least
// 1 - 2 (1 - Level) is proven for the jackknife+ (Barber, Candes, Ramdas and
// Tibshirani, "Predictive inference with the jackknife+", 2021), which needs the n
// readouts of leave-one-out at every prediction. For the jackknife the same paper
// proves Level less 2 sqrt(v), if a margin of e is added to the thresholds and leaving
// one sample out moves a score of a new sample by more than e with probability v at
// most; its own example without such stability covers nothing. A ridge classifier's
// scores move by its hat matrix's entry times a residual, which falls with n and alpha.
type Coverage struct {
	Level   float64   `json:"level"`             // above 0, below 1
	ByClass bool      `json:"by_class,omitzero"` // the share is one of each class, not of all samples together
	Least   []float64 `json:"least"`             // the thresholds, in class order; 0: the class is in every set
	// Adapted is the level at which Least acts, where labels have moved it (Acting); 1e-9 to
	// 1, which has all classes in every set. 0: Level, as in the training.
	Adapted float64 `json:"adapted,omitzero"`
}

// check reports what is wrong, for a readout of that name.
func (c *Coverage) check(name string, classes int, temperature float64) error {
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

// newCoverage learns thresholds from what the samples left out score, one column for
// each class, at the readout's temperature, and says what they make of the same samples.
func newCoverage(level float64, byClass bool, classes []string, labels []int, scores dense.Matrix, temperature float64) (*Coverage, *quality.Sets, error) {
	if temperature == 0 {
		return nil, nil, errors.New("readout: leave-one-out gives no probabilities, so that there are none to make sets of: take a larger alpha, or no coverage")
	}
	c := &Coverage{Level: level, ByClass: byClass, Least: make([]float64, len(classes))}
	p, all := shares(scores, temperature), make([]float64, len(labels))
	own := make([][]float64, len(classes))
	for i, label := range labels {
		all[i] = p.Row(i)[label]
		own[label] = append(own[label], all[i])
	}
	for k := range c.Least {
		if !byClass {
			own[k] = all
		}
		c.Least[k] = threshold(own[k], level)
	}
	sets, err := quality.OfSets(classes, labels, func(i int) (set []int32) {
		for k, v := range p.Row(i) {
			if v >= c.Least[k] {
				set = append(set, int32(k))
			}
		}
		return set
	})
	return c, sets, err
}

// At are the thresholds at a share of true classes that sets may lack; see package
// adaptive. Above 1: the class is in no set.
func (c *Coverage) At(share float64) []float64 {
	least := make([]float64, len(c.Least))
	for k, v := range c.Least {
		least[k] = adaptive.Threshold(v, c.Level, share)
	}
	return least
}

// Adapt lets labels move the thresholds, as package adaptive does: those of the samples
// that were left out, one for each row of scores, in that order of the rows. It returns
// the thresholds at which the next set would act, and what the labels were worth. The sets
// are of what the samples left out score, so that no label judges a readout that has
// learnt from it.
func (c *Coverage) Adapt(rate, temperature float64, scores dense.Matrix, labels, order []int) (*Coverage, *adaptive.Report, error) {
	p := shares(scores, temperature)
	r, err := adaptive.Run(c.Level, rate, 0, len(order), func(i int, share float64) (held bool, size int) {
		for k, v := range p.Row(order[i]) {
			if v >= adaptive.Threshold(c.Least[k], c.Level, share) {
				size++
				held = held || k == labels[order[i]]
			}
		}
		return held, size
	})
	if err != nil {
		return nil, nil, fmt.Errorf("readout: %w", err)
	}
	return c.Acting(r.Share), r, nil
}

// Acting is c with the thresholds at a share of true classes that sets may lack, for a
// readout to have. Its level is at least 1e-9, which has a class in a set where it is as
// good as certain: thresholds above 1, which the share may ask for, are none of a readout.
func (c *Coverage) Acting(share float64) *Coverage {
	share = min(share, 1-1e-9)
	return &Coverage{Level: c.Level, ByClass: c.ByClass, Least: c.At(share), Adapted: min(1, 1-share)}
}

// newAbstain learns a threshold from what the samples left out score, as newCoverage does.
func newAbstain(maxError, confidence float64, labels []int, scores dense.Matrix, temperature float64) (*abstain.Rule, *abstain.Count, error) {
	if temperature == 0 {
		return nil, nil, errors.New("readout: leave-one-out gives no probabilities, so that nothing says where to abstain: take a larger alpha, or no largest error")
	}
	p, right := shares(scores, temperature), make([]bool, len(labels))
	predicted := make([]float32, len(labels))
	for i, label := range labels {
		top := slices.Max(scores.Row(i))
		class := slices.Index(scores.Row(i), top)
		predicted[i], right[i] = float32(p.Row(i)[class]), class == label
	}
	return abstain.Learn(maxError, confidence, scores.Cols, predicted, right)
}

// shares are the probabilities that scores make, as Linear.Probability does.
func shares(scores dense.Matrix, temperature float64) dense.Matrix {
	p := dense.New(scores.Rows, scores.Cols)
	for i := range p.Rows {
		row, sum := scores.Row(i), 0.0
		top := slices.Max(row)
		for k, s := range row {
			v := canon.ExpNegative(float64(temperature * (top - s)))
			p.Row(i)[k] = v
			sum += v
		}
		for k := range row {
			p.Row(i)[k] /= sum
		}
	}
	return p
}

// threshold is the k-th smallest of n values, k being the largest number of at most
// (1 - level) (n + 1), which one more value of the same distribution, in any order
// with them, is below with probability k / (n + 1) at most. 0 where k is 0: too few
// values to leave one out of the level.
func threshold(values []float64, level float64) float64 {
	const rounding = 1e-9 // of a level that is a decimal number
	k := int((1-level)*float64(len(values)+1) + rounding)
	if k == 0 {
		return 0
	}
	slices.Sort(values)
	return values[k-1]
}

// Enough is how many samples a class needs at least for a threshold above 0.
func Enough(level float64) int {
	n := 1
	for ; n < math.MaxInt32 && int((1-level)*float64(n+1)+1e-9) == 0; n++ {
	}
	return n
}

// Interval makes a number of a regression's score, and an interval: the true number is
// at least value + Low, and at most value + High, in a share Level of samples like those
// learnt from. Below and above are a share of (1 - Level) / 2 each.
//
// Low and High are quantiles of the exact leave-one-out residuals, the true numbers less
// the predicted ones: the jackknife of conformal prediction, for each side by itself.
// What is proven of it is said at Coverage.
type Interval struct {
	Level float64 `json:"level"` // above 0, below 1
	Low   float32 `json:"low"`   // in the unit of the number
	High  float32 `json:"high"`  // likewise; not below Low
}

// Moved is v with other ends, rounded to the outside. Where low is above high, which holds
// no number, both are the number in the middle.
func (v *Interval) Moved(low, high float64) *Interval {
	if low > high {
		low = low + (high-low)/2
		high = low
	}
	return &Interval{v.Level, -up(-low), up(high)}
}

// check reports what is wrong, for a readout of that name, which has classes where it
// has what only they have.
func (v *Interval) check(name string, classes bool) error {
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
	return nil
}

// newInterval learns one from what the samples left out score.
func newInterval(level float64, y targets, scores dense.Matrix) (*Interval, error) {
	side := (1 + level) / 2
	if n, enough := len(y.numbers), Enough(side); n < enough {
		return nil, fmt.Errorf("readout: an interval of coverage %v needs at least %d samples to be left out in turn, there are %d: take a lower coverage, or more samples", level, enough, n)
	}
	below, above := make([]float64, len(y.numbers)), make([]float64, len(y.numbers))
	for i, number := range y.numbers {
		below[i] = number - scores.Row(i)[0]
		above[i] = -below[i]
	}
	return &Interval{level, -up(-threshold(below, side)), up(-threshold(above, side))}, nil
}

// up is the float32 next to x that is not below it.
func up(x float64) float32 {
	v := float32(x)
	if float64(v) < x {
		return math.Nextafter32(v, math.MaxFloat32)
	}
	return v
}
