package offline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/fit"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// RandomOptions select random features for numbers: units with drawn weights, which read running means of each channel
// and their differences, instead of the network (readout.RandomFeatures, reservoir.Front.Means). Leave-one-out chooses
// the scale of the drawn weights, and whether statistics count by their correlation with the number. The zero value is
// the default.
type RandomOptions struct {
	Units  int   // 0: defaultUnits
	Means  []int // lengths of the running means, samples after the front end, ascending; nil: defaultMeans
	Always bool  // also if leave-one-out is better with the features of the network
}

// defaultUnits is the default number of units of random features.
const defaultUnits = 512

// mostUnits bounds the number of units.
const mostUnits = 1 << 14

// defaultMeans returns the default lengths of running means.
func defaultMeans() []int { return []int{4, 16, 64, 256} }

// RandomReport describes the choice between random features and the features of the network. Errors are the root mean
// squares of leave-one-out.
type RandomReport struct {
	Units   int     `json:"units"`
	Means   []int   `json:"means"` // lengths of the running means, samples
	Scale   float64 `json:"scale"` // variance of the drawn sums, for standardized statistics
	RMSE    float64 `json:"rmse"`
	Network float64 `json:"network_rmse"` // with the features of the network
	Chosen  bool    `json:"chosen"`       // the model has the random features

	Weighted bool `json:"weighted"` // statistics count by their correlation with the number
}

// randomScales are the candidates of RandomReport.Scale.
var randomScales = []float64{0.3, 1, 3}

// checkRandom refuses contradictory options.
func (o *RandomOptions) checkRandom(target string) error {
	switch {
	case o == nil:
		return nil
	case target == "":
		return errors.New("offline: random features, and no target: want a target, too")
	case o.Units < 0 || o.Units > mostUnits:
		return fmt.Errorf("offline: %d units of random features, want 1 to %d", o.Units, mostUnits)
	}
	return (&reservoir.Front{Means: o.means()}).CheckParts(reservoir.Policy{Kind: reservoir.Marked})
}

func (o *RandomOptions) means() []int {
	if o.Means == nil {
		return defaultMeans()
	}
	return o.Means
}

func (o *RandomOptions) units() int {
	if o.Units == 0 {
		return defaultUnits
	}
	return o.Units
}

// withStatistics returns the front end of the training with the statistics of random features, segments or a detector, if
// requested.
func (t *training) withStatistics() *reservoir.Front {
	means := t.detectorMeans()
	if t.opt.Random != nil {
		means = t.opt.Random.means()
	}
	if means == nil && t.segments == nil {
		return t.front
	}
	front := reservoir.Front{Fill: slices.Clone(t.first())}
	if t.front != nil {
		front = *t.front
	}
	front.Means, front.Segments = means, t.segments
	return &front
}

// keepStatistics allocates memory for the statistics of all training sequences, if requested.
func (t *training) keepStatistics() {
	if t.opt.Random != nil || t.segments != nil {
		t.statistics = make([]float32, len(t.examples.labels)*t.withStatistics().StatisticsSize(len(t.src.channels)))
	}
}

// statisticsBytes returns the memory of keepStatistics.
func (t *training) statisticsBytes() int64 { return 4 * int64(len(t.statistics)) }

// seeStatistics takes the statistics of a training sequence. Safe for concurrent use with different sequences.
func (t *training) seeStatistics(i int, statistics []float32) {
	if t.statistics != nil {
		copy(t.statistics[i*len(statistics):], statistics)
	}
}

// chooseRandom learns a readout of random features, if requested, and returns it if its leave-one-out error is smaller
// than that of the given readout; otherwise the given readout and its report.
func (t *training) chooseRandom(ctx context.Context, linear *readout.Linear, report fit.Report) (*readout.Linear, fit.Report, error) {
	o := t.opt.Random
	if o == nil {
		return linear, report, nil
	}
	drawn := t.drawUnits()
	if drawn == nil {
		return linear, report, nil
	}
	choice := &RandomReport{Units: drawn.Units(), Means: o.means(), Network: report.Numbers.RMSE}
	t.report.Random = choice
	var best *readout.Linear
	var of fit.Report
	for _, weighted := range []*readout.RandomFeatures{drawn, t.weighStatistics(drawn)} {
		for _, scale := range randomScales {
			random := scaleUnits(weighted, func(int) float64 { return math.Sqrt(scale) })
			l, r, err := t.fitUnits(ctx, random)
			if err != nil {
				return nil, report, err
			}
			if best == nil || r.Numbers.RMSE < choice.RMSE {
				best, of, choice.RMSE, choice.Scale = readUnits(l, random, linear.Features()), r, r.Numbers.RMSE, scale
				choice.Weighted = weighted != drawn
			}
		}
	}
	if choice.Chosen = o.Always || choice.RMSE < choice.Network; !choice.Chosen {
		return linear, report, nil
	}
	t.front = t.withStatistics()
	return best, of, nil
}

// drawUnits draws the weights of the units for scale 1: a unit's sum has about this variance over the training
// sequences. Statistics that do not vary have weights of 0. nil if no statistic varies.
func (t *training) drawUnits() *readout.RandomFeatures {
	units, n := t.opt.Random.units(), len(t.examples.labels)
	d := len(t.statistics) / n
	r := &readout.RandomFeatures{
		Center: make([]float32, d), Weights: make([]float32, units*d), Bias: make([]float32, units), Out: make([]float32, units),
	}
	inverse, varying := make([]float64, d), 0
	for j := range d {
		mean, deviation := t.statisticMoments(j, d)
		r.Center[j] = float32(mean)
		if deviation > 0 && (!t.net.Spec.Standardize || t.net.Norm.Scale[j/len(t.opt.Random.means())] != 0) {
			inverse[j] = 1 / deviation
			varying++
		}
	}
	if varying == 0 {
		return nil
	}
	share := 1 / math.Sqrt(float64(varying))
	rng := rand.New(rand.NewPCG(t.opt.Spec.Seed, 1))
	for u := range units {
		r.Bias[u] = float32(rng.NormFloat64())
		for j := range d {
			r.Weights[u*d+j] = float32(rng.NormFloat64() * share * inverse[j])
		}
	}
	return r
}

// statisticMoments returns mean and deviation of statistic j of d over the training sequences. The deviation is 0 if it
// is only rounding of float32.
func (t *training) statisticMoments(j, d int) (mean, deviation float64) {
	n := float64(len(t.statistics) / d)
	for at := j; at < len(t.statistics); at += d {
		mean += float64(t.statistics[at])
	}
	mean /= n
	for at := j; at < len(t.statistics); at += d {
		deviation += math.Pow(float64(t.statistics[at])-mean, 2)
	}
	if deviation = math.Sqrt(deviation / n); deviation <= 0x1p-22*math.Abs(mean) {
		return mean, 0
	}
	return mean, deviation
}

// weighStatistics multiplies the weights of each statistic by the magnitude of its correlation with the number, so that
// units read little of channels without a relation to the number; the sums keep about their variance.
func (t *training) weighStatistics(drawn *readout.RandomFeatures) *readout.RandomFeatures {
	d, numbers := drawn.Statistics(), t.examples.numbers
	mean := 0.
	for _, v := range numbers {
		mean += float64(v) / float64(len(numbers))
	}
	weights, squares, varying := make([]float64, d), 0., 0.
	for j := range d {
		_, deviation := t.statisticMoments(j, d)
		if deviation == 0 || drawn.Weights[j] == 0 {
			continue
		}
		for i, v := range numbers {
			weights[j] += float64((float64(t.statistics[i*d+j]) - float64(drawn.Center[j])) * (float64(v) - mean))
		}
		weights[j] = math.Abs(weights[j]) / deviation
		squares += float64(weights[j] * weights[j])
		varying++
	}
	return scaleUnits(drawn, func(j int) float64 {
		if squares == 0 { // no statistic has a relation to the number
			return 1
		}
		return weights[j] * math.Sqrt(varying/squares)
	})
}

// scaleUnits multiplies the drawn weights by the factor of their statistic.
func scaleUnits(drawn *readout.RandomFeatures, factor func(j int) float64) *readout.RandomFeatures {
	r := *drawn
	r.Weights, r.Out = slices.Clone(r.Weights), slices.Clone(r.Out)
	for i, w := range r.Weights {
		r.Weights[i] = float32(float64(w) * factor(i%r.Statistics()))
	}
	return &r
}

// fitUnits learns a readout of the units' values.
func (t *training) fitUnits(ctx context.Context, random *readout.RandomFeatures) (*readout.Linear, fit.Report, error) {
	d := random.Statistics()
	return t.fitColumns(ctx, "random features", random.Units(), 0, func(i int, row []float32) { random.Features(row, t.statistics[i*d:(i+1)*d]) })
}

// fitColumns learns a readout of the given number of columns for each example, written by fill, with the given memory; 0:
// any.
func (t *training) fitColumns(ctx context.Context, what string, columns int, memory int64, fill func(i int, row []float32)) (*readout.Linear, fit.Report, error) {
	opt := t.readout(t.examples.groups, 0)
	opt.Soft, opt.Memory, opt.Standardize = nil, memory, true
	n := len(t.examples.labels)
	l, err := fit.NewLearner(columns, t.src.classes, t.examples.labels, opt)
	if err != nil {
		return nil, fit.Report{}, fmt.Errorf("offline: %s: %s: %w", t.src.what, what, err)
	}
	defer l.Close()
	block := make([]float32, min(n, collectBlock)*columns)
	for from := 0; from < n; from += collectBlock {
		if err := context.Cause(ctx); err != nil {
			return nil, fit.Report{}, err
		}
		to := min(n, from+collectBlock)
		for i := from; i < to; i++ {
			fill(i, block[(i-from)*columns:(i-from+1)*columns])
		}
		if err := l.Add(block[:(to-from)*columns]); err != nil {
			return nil, fit.Report{}, err
		}
	}
	opt.Groups = nil // the learner has them
	linear, report, err := l.Solve(ctx, opt)
	if err != nil {
		return nil, report, fmt.Errorf("offline: %s: %s: %w", t.src.what, what, err)
	}
	return linear, report, nil
}

// readUnits returns a readout of random features for a network: linear reads the units' values.
func readUnits(linear *readout.Linear, random *readout.RandomFeatures, features int) *readout.Linear {
	intercept := float64(linear.Intercept[0])
	for u, w := range linear.Weights {
		intercept -= float64(w) * float64(linear.Center[u])
	}
	random.Out = slices.Clone(linear.Weights)
	out := *linear
	out.Center, out.Limit, out.Weights, out.Intercept = make([]float32, features), nil, make([]float32, features), []float32{float32(intercept)}
	out.Random = random
	return &out
}
