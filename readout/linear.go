package readout

import (
	"errors"
	"fmt"
	"math"

	"github.com/eusn-stream/eusn-stream/internal/canon"
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/readout/novelty"
)

// Linear is one trained readout: scores = Intercept + Weights (f - Center), each f - Center
// limited to [-Limit, Limit] if there are limits.
//
// Subtracting Center before the product, rather than folding it into the intercept, keeps
// float32 scores accurate if a feature's mean is large compared with its deviation. Feature
// deviations are folded into Weights.
//
// A Linear is immutable once an engine or a model holds it.
type Linear struct {
	Name      string    // unique within a model; names the readout in predictions
	Classes   []string  // label of each class, at least two, in class order; for a regression, the name of the number
	Center    []float32 // Features values
	Limit     []float32 // Features positive values, or nil: f - Center is not limited
	Weights   []float32 // Columns x Features, row-major
	Intercept []float32 // Columns values

	// Temperature scales scores for probabilities; 0: not known.
	Temperature float64
	// Coverage selects sets of classes by scores; nil: no sets.
	Coverage *Coverage
	// Abstain decides which predictions are answers; nil: all are.
	Abstain *AbstainRule
	// Interval marks a regression, and converts its one score to a number with an interval;
	// nil: the readout has classes. A regression has one class, named after the number.
	Interval *Interval
	// Random adds random features of the samples' statistics to the score of a regression; nil:
	// none. The score of Scores is without them.
	Random *RandomFeatures
	// Segments adds statistics of the sequence's segments to the scores of classes; nil: none.
	// The scores of Scores are without them.
	Segments *SegmentWeights

	// Prefixes scores unfinished sequences, and decides when prefixes suffice; nil: unfinished
	// sequences are scored as whole sequences.
	Prefixes *Prefixes

	// Novelty measures the distance of features from the training part; nil: not known.
	Novelty *novelty.Detector
	// Detects marks a readout without fault classes: class 1 is novel by Novelty, see
	// Detected. Its weights and linear scores have no meaning.
	Detects bool
}

// Features returns the number of features of the readout.
func (l *Linear) Features() int { return len(l.Center) }

// Columns returns the number of scores: one for two classes (positive means class 1) and for a
// regression, otherwise one per class.
func (l *Linear) Columns() int {
	if len(l.Classes) == 2 {
		return 1
	}
	return len(l.Classes)
}

// Validate reports every error of shape or value.
func (l *Linear) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	l.checkNames(bad)
	l.checkShape(bad)
	for _, t := range []struct {
		name string
		v    []float32
	}{{"center", l.Center}, {"limit", l.Limit}, {"weights", l.Weights}, {"intercept", l.Intercept}} {
		for i, x := range t.v {
			if x != x || math.IsInf(float64(x), 0) {
				bad("readout: %q: %s[%d] is %v, want a finite number", l.Name, t.name, i, x)
				break
			}
		}
	}
	errs = append(errs, l.checkNovelty(), l.checkPrefixes(), l.checkAbstain(), l.checkRandom(), l.checkSegments(), l.Interval.checkInterval(l.Name, l.Coverage != nil || l.Abstain != nil || l.Temperature != 0 || l.Detects || l.Prefixes != nil))
	if !(l.Temperature >= 0) || math.IsInf(l.Temperature, 0) {
		bad("readout: %q: temperature %v, want a finite number, 0 or more", l.Name, l.Temperature)
	}
	return errors.Join(append(errs, l.Coverage.checkCoverage(l.Name, len(l.Classes), l.Temperature))...)
}

// checkNames reports errors in the names of the readout and its classes to bad.
func (l *Linear) checkNames(bad func(format string, args ...any)) {
	if l.Interval != nil && len(l.Classes) != 1 {
		bad("readout: %q: a regression with %d names, want one: of what its number is", l.Name, len(l.Classes))
	}
	if len(l.Classes) < 2 && l.Interval == nil {
		bad("readout: %q: want at least 2 classes, got %d", l.Name, len(l.Classes))
	}
	if err := names.Check("name", l.Name); err != nil {
		bad("readout: %w", err)
	}
	for _, class := range l.Classes {
		if err := names.Check("class name", class); err != nil {
			bad("readout: %q: %w", names.Cut(l.Name, 40), err)
			break
		}
	}
}

// checkShape reports fields with a wrong number of values, and limits that are not positive,
// to bad.
func (l *Linear) checkShape(bad func(format string, args ...any)) {
	f, c := l.Features(), l.Columns()
	if f == 0 {
		bad("readout: %q: center is empty, want one value per feature", l.Name)
	}
	if l.Limit != nil && len(l.Limit) != f {
		bad("readout: %q: want a limit for each of %d features, or none, got %d", l.Name, f, len(l.Limit))
	}
	for i, v := range l.Limit {
		if v <= 0 {
			bad("readout: %q: limit[%d] is %v, want a positive number", l.Name, i, v)
			break
		}
	}
	if len(l.Weights) != c*f {
		bad("readout: %q: want %d weights (%d columns x %d features), got %d", l.Name, c*f, c, f, len(l.Weights))
	}
	if len(l.Intercept) != c {
		bad("readout: %q: want %d intercepts, got %d", l.Name, c, len(l.Intercept))
	}
}

// Scores writes the readout's Columns scores for one feature vector to dst.
// Canonical arithmetic: each score is one chain of float32 fused
// multiply-adds over the features in ascending order, starting at the
// intercept; f - Center is one rounded subtraction, then limited.
func (l *Linear) Scores(dst, features []float32) {
	n := l.Features()
	features = features[:n]
	for c := range dst[:l.Columns()] {
		w := l.Weights[c*n : (c+1)*n]
		acc := l.Intercept[c]
		for j, f := range features {
			d := f - l.Center[j]
			if l.Limit != nil {
				d = canon.Limit(d, l.Limit[j])
			}
			acc = canon.FMA(w[j], d, acc)
		}
		dst[c] = acc
	}
}

// Distance returns the factor of the weights of feature j in Scores, if its value is
// f: f - Center, limited. wide is true if limited.
func (l *Linear) Distance(j int, f float32) (d float32, wide bool) {
	d = f - l.Center[j]
	if l.Limit == nil {
		return d, false
	}
	limit := canon.Limit(d, l.Limit[j])
	return limit, limit != d
}

// Class returns the class of one sample's scores: the largest score, the first of equals; with
// two classes, class 1 if the score is positive.
func (l *Linear) Class(scores []float32) int {
	if len(l.Classes) == 2 {
		if scores[0] > 0 {
			return 1
		}
		return 0
	}
	best := 0
	for c, s := range scores[:len(l.Classes)] {
		if s > scores[best] {
			best = c
		}
	}
	return best
}

// Probability returns the probability of the class returned by Class, among the readout's
// classes: the largest entry of softmax(Temperature * scores); with two classes and one score
// s, 1 / (1 + exp(-Temperature |s|)). 0 if the temperature is not known, else from 1/classes
// to 1; the same bits on every platform.
func (l *Linear) Probability(scores []float32) float32 {
	if l.Temperature == 0 {
		return 0
	}
	sum := 0.0
	if class := l.Class(scores); len(l.Classes) == 2 {
		sum = 1 + l.relative(math.Abs(float64(scores[0])))
	} else {
		top := float64(scores[class])
		for _, s := range scores[:len(l.Classes)] {
			sum += l.relative(top - float64(s))
		}
	}
	if !(sum >= 1) { // a score is no finite number
		return 0
	}
	return float32(1 / sum)
}

// AppendSet appends the set of one sample's scores to dst: indexes of classes, ascending.
// AppendSet appends nothing if the readout has no Coverage, or a score is no finite number.
// Equal bits give equal sets on every platform.
func (l *Linear) AppendSet(dst []int32, scores []float32) []int32 {
	if l.Coverage == nil {
		return dst
	}
	return l.AppendSetAt(dst, scores, l.Coverage.Least)
}

// AppendSetAt is AppendSet with the given thresholds, in class order.
func (l *Linear) AppendSetAt(dst []int32, scores []float32, thresholds []float64) []int32 {
	at := func(k int) float64 {
		if len(l.Classes) == 2 {
			return float64(k) * float64(scores[0])
		}
		return float64(scores[k])
	}
	top, sum := math.Inf(-1), 0.0
	for k := range l.Classes {
		top = max(top, at(k))
	}
	for k := range l.Classes {
		sum += l.relative(top - at(k))
	}
	for k, least := range thresholds {
		if l.relative(top-at(k))/sum >= least {
			dst = append(dst, int32(k))
		}
	}
	return dst
}

// Abstains reports whether a prediction with this Probability is no answer.
func (l *Linear) Abstains(probability float32) bool {
	return l.Abstain != nil && !l.Abstain.Answers(probability)
}

func (l *Linear) checkAbstain() error {
	if l.Abstain == nil {
		return nil
	}
	if l.Temperature == 0 {
		return fmt.Errorf("readout: %q: a threshold below which it abstains, and no temperature, want both", l.Name)
	}
	if err := l.Abstain.Validate(); err != nil {
		return fmt.Errorf("readout: %q: %w", l.Name, err)
	}
	return nil
}

// Number returns the predicted number and its interval for one sample's score; not for
// classes. Equal bits on every platform.
func (l *Linear) Number(scores []float32) (value, low, high float32) {
	score, v := scores[0], l.Interval
	return v.limit(score), v.limit(score + v.Low), v.limit(score + v.High)
}

// relative returns the likelihood of a class whose score is lower by the given difference,
// relative to the higher score's.
func (l *Linear) relative(lower float64) float64 {
	return canon.ExpNegative(float64(l.Temperature * lower))
}
