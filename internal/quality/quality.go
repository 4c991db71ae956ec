package quality

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/names"
)

// Report describes the quality of predictions of labeled samples. nil means not known: a class
// without samples, or no temperature.
type Report struct {
	Samples  int      `json:"samples"`
	Balanced float64  `json:"balanced_accuracy"`           // mean recall of the classes with samples
	F1       float64  `json:"f1"`                          // mean over these classes
	AUROC    *float64 `json:"auroc"`                       // mean over these classes
	LogLoss  *float64 `json:"log_loss"`                    // nats
	ECE      *float64 `json:"calibration_error"`           // of the predicted class, in 15 bins
	Chance   *float64 `json:"calibration_error_by_chance"` // mean calibration error if each probability is exactly right
	Classes  []Class  `json:"by_class"`                    // in the readout's order
	Healthy  string   `json:"healthy,omitempty"`           // the class of Class.Against; empty: no class, or several, have such a name, or there are only two classes
}

// Class compares one class with all others.
type Class struct {
	Class     string   `json:"class"`
	Samples   int      `json:"samples"`   // of the class
	Predicted int      `json:"predicted"` // as the class
	Right     int      `json:"right"`     // of the predicted samples
	Precision *float64 `json:"precision"` // nil: never predicted
	Recall    *float64 `json:"recall"`    // nil: no sample
	F1        *float64 `json:"f1"`        // nil: no sample
	AUROC     *float64 `json:"auroc"`     // nil: no sample, or no sample of another class
	// Against is the AUROC against the samples of the class Healthy only, by the difference of the
	// scores of both; nil: no sample of one of both, or no class Healthy.
	Against *float64 `json:"auroc_healthy,omitempty"`
}

// bins of the calibration error.
const bins = 15

// leastProbability is the lower limit of p in log-loss: one step of a float64 near 1.
const leastProbability = 0x1p-52

// New measures samples with labels, whose scores are row by row, one for each class. The
// prediction is the first of the largest. A temperature of 0 is not known.
func New(classes []string, labels []int, scores []float64, temperature float64) (*Report, error) {
	k, n := len(classes), len(labels)
	if k < 2 || n == 0 || len(scores) != n*k {
		return nil, fmt.Errorf("quality: %d scores of %d samples and %d classes, want one for each, of at least one sample and two classes", len(scores), n, k)
	}
	r := &Report{Samples: n, Classes: make([]Class, k)}
	for c, name := range classes {
		r.Classes[c].Class = name
	}
	for i, label := range labels {
		if label < 0 || label >= k {
			return nil, fmt.Errorf("quality: sample %d has label %d, want 0 to %d", i, label, k-1)
		}
		row := scores[i*k : (i+1)*k]
		predicted := slices.Index(row, slices.Max(row))
		if predicted < 0 { // not a number
			return nil, fmt.Errorf("quality: sample %d has scores %v, want numbers", i, row)
		}
		r.Classes[label].Samples++
		r.Classes[predicted].Predicted++
		if predicted == label {
			r.Classes[label].Right++
		}
	}
	if temperature > 0 {
		r.probabilities(labels, scores, temperature)
	}
	r.compareHealthy(labels, scores)
	r.sum()
	return r, nil
}

// alike is the AUROC below which LikeHealthy lists a class.
const alike = .75

// LikeHealthy returns the classes that can hardly be distinguished from the class Healthy.
func (r *Report) LikeHealthy() (classes []Class) {
	for _, c := range r.Classes {
		if c.Against != nil && *c.Against < alike {
			classes = append(classes, c)
		}
	}
	return classes
}

// compareHealthy compares each class with the healthy class.
func (r *Report) compareHealthy(labels []int, scores []float64) {
	k, healthy := len(r.Classes), -1
	for c := range r.Classes {
		if names.IsHealthy(r.Classes[c].Class) {
			if healthy >= 0 {
				return
			}
			healthy = c
		}
	}
	if healthy < 0 || k == 2 {
		return
	}
	r.Healthy = r.Classes[healthy].Class
	for c := range r.Classes {
		if c == healthy || r.Classes[c].Samples == 0 || r.Classes[healthy].Samples == 0 {
			continue
		}
		var x []float64
		var of []int
		for i, label := range labels {
			if label == c || label == healthy {
				x, of = append(x, scores[i*k+c]-scores[i*k+healthy]), append(of, label)
			}
		}
		a := area(x, 1, of, c)
		r.Classes[c].Against = &a
	}
}

// sum fills in the figures that follow from the counts, and the means.
func (r *Report) sum() {
	there, auroc, ranked := 0, 0.0, 0
	for i := range r.Classes {
		c := &r.Classes[i]
		if c.Predicted > 0 {
			c.Precision = share(c.Right, c.Predicted)
		}
		if c.Samples == 0 {
			continue
		}
		there++
		c.Recall, c.F1 = share(c.Right, c.Samples), share(2*c.Right, c.Samples+c.Predicted)
		r.Balanced += *c.Recall
		r.F1 += *c.F1
		if c.AUROC != nil {
			auroc += *c.AUROC
			ranked++
		}
	}
	r.Balanced /= float64(there)
	r.F1 /= float64(there)
	if ranked > 0 {
		auroc /= float64(ranked)
		r.AUROC = &auroc
	}
}

func share(a, b int) *float64 {
	s := float64(a) / float64(b)
	return &s
}

// probabilities fills in the figures that follow from probabilities.
func (r *Report) probabilities(labels []int, scores []float64, temperature float64) {
	k, n := len(r.Classes), len(labels)
	odds := make([]float64, n*k) // logarithms of the odds: as probabilities, values near 1 would be equal
	p, loss := make([]float64, k), 0.0
	var right, sum [bins]float64
	var sure [bins][]float64
	for i, label := range labels {
		row := scores[i*k : (i+1)*k]
		top, total := slices.Max(row), 0.0
		for c, s := range row {
			p[c] = math.Exp(temperature * (s - top))
			total += p[c]
		}
		best := slices.Index(row, top)
		for c := range row {
			odds[i*k+c] = logOdds(row, c, temperature)
			p[c] /= total
		}
		loss -= math.Log(max(leastProbability, p[label]))
		bin := min(bins-1, int(math.Ceil(p[best]*bins))-1)
		sum[bin] += p[best]
		sure[bin] = append(sure[bin], p[best])
		if best == label {
			right[bin]++
		}
	}
	ece := 0.0
	for b := range bins {
		ece += math.Abs(right[b]-sum[b]) / float64(n)
	}
	loss /= float64(n)
	expected := chance(sure, n)
	r.LogLoss, r.ECE, r.Chance = &loss, &ece, &expected
	for c := range r.Classes {
		if of := r.Classes[c].Samples; of > 0 && of < n {
			a := area(odds[c:], k, labels, c)
			r.Classes[c].AUROC = &a
		}
	}
}

// logOdds returns log(p / (1 - p)) of a class: from differences of scores, so that samples
// whose scores differ only by a common number are equal.
func logOdds(row []float64, class int, temperature float64) float64 {
	top, sum := math.Inf(-1), 0.0
	for c, s := range row {
		if c != class {
			top = max(top, temperature*(s-row[class]))
		}
	}
	for c, s := range row {
		if c != class {
			sum += math.Exp(temperature*(s-row[class]) - top)
		}
	}
	return -top - math.Log(sum)
}

// area returns the area under the ROC curve of one class, from the ranks of its samples: Mann
// and Whitney 1947. Equal values have the mean of their ranks.
func area(x []float64, stride int, labels []int, class int) float64 {
	order := make([]int, len(labels))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(x[a*stride], x[b*stride]) })
	ranks, own := 0.0, 0
	for from := 0; from < len(order); {
		to := from + 1
		for to < len(order) && x[order[to]*stride] == x[order[from]*stride] {
			to++
		}
		for _, i := range order[from:to] {
			if labels[i] == class {
				ranks += float64(from+to+1) / 2
				own++
			}
		}
		from = to
	}
	pairs := float64(own) * float64(len(labels)-own)
	return (ranks - float64(own)*float64(own+1)/2) / pairs
}
