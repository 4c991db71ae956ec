package abstain

import (
	"errors"
	"math"

	"github.com/eusn-stream/eusn-stream/readout"
)

// Count reports the quality of answers.
type Count struct {
	Samples  int      `json:"samples"`
	Answered int      `json:"answered"`
	Wrong    int      `json:"wrong"`           // of Answered
	Error    *float64 `json:"error"`           // Wrong / Answered; nil: no answers
	All      float64  `json:"error_of_all"`    // the share of wrong classes without abstention
	Bound    float64  `json:"bound,omitempty"` // upper bound of the error by Learn, at the rule's confidence; 0: not known
}

// Of counts n samples with labels.
func Of(n int, answers, right func(i int) bool) *Count {
	c, wrong := &Count{Samples: n}, 0
	for i := range n {
		ok := right(i)
		if !ok {
			wrong++
		}
		if !answers(i) {
			continue
		}
		if c.Answered++; !ok {
			c.Wrong++
		}
	}
	if n > 0 {
		c.All = float64(wrong) / float64(n)
	}
	if c.Answered > 0 {
		share := float64(c.Wrong) / float64(c.Answered)
		c.Error = &share
	}
	return c
}

const perOctave = 8 // thresholds for each doubling of the doubt

// Learn fits a rule to the probabilities of the predicted classes of samples unseen by the
// readout, and whether the predictions are right. classes is the number of classes.
func Learn(maxError, confidence float64, classes int, probability []float32, right []bool) (*readout.AbstainRule, *Count, error) {
	rule, level, enough := &readout.AbstainRule{MaxError: maxError, Confidence: confidence, Above: 1}, 1-confidence, Enough(maxError, confidence)
	if err := rule.Validate(); err != nil {
		return nil, nil, err
	}
	if len(probability) == 0 || len(probability) != len(right) || classes < 2 {
		return nil, nil, errors.New("abstain: want samples, each with a probability and whether it is right, and two classes or more")
	}
	for j, last := 0, false; !last; j++ {
		at := *rule
		if at.Above = 1 - maxError*math.Exp2(float64(j)/perOctave); at.Above < 1/float64(classes) {
			at.Above, last = 0, true
		}
		n, wrong := 0, 0
		for i, p := range probability {
			if at.Answers(p) {
				if n++; !right[i] {
					wrong++
				}
			}
		}
		if n < enough {
			continue
		}
		if atMost(wrong, n, maxError) > level {
			break
		}
		*rule = at
	}
	c := Of(len(right), func(i int) bool { return rule.Answers(probability[i]) }, func(i int) bool { return right[i] })
	if c.Answered > 0 {
		c.Bound = upper(c.Wrong, c.Answered, level)
	}
	return rule, c, nil
}

// Enough returns the number of answered samples, none wrong, that shows the given error.
func Enough(maxError, confidence float64) int {
	const rounding = 1e-9 // of levels that are decimal numbers
	return max(1, int(math.Ceil(math.Log(1-confidence)/math.Log1p(-maxError)-rounding)))
}

// atMost returns P(X <= k) of a binomial X with n trials of probability p.
func atMost(k, n int, p float64) float64 {
	if k >= n {
		return 1
	}
	lg := func(x int) float64 {
		v, _ := math.Lgamma(float64(x + 1))
		return v
	}
	sum := 0.0
	for i := range k + 1 {
		sum += math.Exp(lg(n) - lg(i) - lg(n-i) + float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
	}
	return min(1, sum)
}

// upper returns the bound of Clopper and Pearson: the probability at which k of n or fewer
// occur with probability level.
func upper(k, n int, level float64) float64 {
	lo, hi := float64(k)/float64(n), 1.0
	if k == n {
		return 1
	}
	for range 60 {
		if mid := (lo + hi) / 2; atMost(k, n, mid) > level {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}
