package novelty

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/eusn-stream/eusn-stream/internal/canon"
)

// Detector measures the distance of a feature vector from its training part. It is immutable
// once a readout holds it.
type Detector struct {
	Center []float32 // of each feature
	Scale  []float32 // of each feature; 0 removes a feature
	Axes   []float32 // dimensions x features, row-major: directions of centered and scaled features, Usual.Between spliced, then principal
	Left   []float32 // scores of left-out training sequences, ascending
	Unit   float32   // the residual whose score is 1
	Level  float32   // a sequence with a p-value not above Level is novel; in (0, 1)
	Usual  *Usual    // divides residuals; nil: no division

	// Inputs are the weights of ReadInputs on centered and scaled features: values x features,
	// row-major; nil: ReadInputs reads nothing.
	Inputs []float32

	// Means add the distance of running means of the samples (AddMeans); nil: Score is the whole
	// score.
	Means *Means

	// Later are the measured false alarms; nil: not measured. No score depends on Later.
	Later *Later
}

// Later counts the false alarms on healthy data after the training: of a detector of the first
// two thirds of each run, on the last third.
type Later struct {
	Level     float64 `json:"level"`     // the promised share
	Sequences int     `json:"sequences"` // of the last thirds
	Novel     int     `json:"novel"`     // of Sequences
	Separate  int     `json:"separate"`  // of Sequences, without common samples
}

// Share returns the measured share of false alarms.
func (l *Later) Share() float64 { return float64(l.Novel) / float64(max(1, l.Sequences)) }

// tolerated is the factor by which the measured share may exceed the promised share: the last
// thirds are few.
const tolerated = 2

// Holds reports whether the measured share confirms the promised share.
func (l *Later) Holds() bool { return l.Share() <= tolerated*l.Level }

// Needed returns how many separate sequences, none novel, show with a confidence of .95 that
// Holds: with fewer the data are too short to confirm the promise.
func (l *Later) Needed() int {
	return int(math.Ceil(math.Log(.05) / math.Log1p(-min(.95, tolerated*l.Level))))
}

// checkCounts reports impossible counts to bad.
func (l *Later) checkCounts(bad func(format string, args ...any)) {
	if l == nil {
		return
	}
	if !(l.Level > 0 && l.Level < 1) || l.Sequences < 1 || l.Novel < 0 || l.Novel > l.Sequences || l.Separate < 1 || l.Separate > l.Sequences {
		bad("later data: %d novel of %d sequences, %d of them separate, at a level of %v: want at least one sequence, no more novel or separate ones, and a level between 0 and 1", l.Novel, l.Sequences, l.Separate, l.Level)
	}
}

// InputsOf is the number of values of each channel.
const InputsOf = 3

// InputNames are the names of the values of a channel.
var InputNames = [InputsOf]string{"level", "spread", "pace"}

// Features returns the number of features.
func (d *Detector) Features() int { return len(d.Center) }

// Dimensions returns the number of directions.
func (d *Detector) Dimensions() int { return len(d.Axes) / max(1, len(d.Center)) }

// InputValues returns the number of values that ReadInputs writes; 0 for a nil detector.
func (d *Detector) InputValues() int {
	if d == nil {
		return 0
	}
	return len(d.Inputs) / max(1, len(d.Center))
}

// maxDimensions limits the directions of a detector.
const maxDimensions = 1024

// Validate reports every error of shape or value.
func (d *Detector) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("novelty: "+format, args...)) }
	if f := len(d.Center); f == 0 || len(d.Scale) != f || len(d.Axes) == 0 || len(d.Axes)%f != 0 || len(d.Axes)/f > maxDimensions {
		bad("%d features, %d scales and %d values of directions, want a scale for each feature and whole directions, 1 to %d", f, len(d.Scale), len(d.Axes), maxDimensions)
	}
	if f := len(d.Center); f > 0 && len(d.Inputs)%(InputsOf*f) != 0 {
		bad("%d values that read inputs, want %d x %d for each channel", len(d.Inputs), InputsOf, f)
	}
	if !(d.Unit > 0) || math.IsInf(float64(d.Unit), 0) {
		bad("unit %v, want a positive number", d.Unit)
	}
	d.checkFinite(bad)
	if len(d.Left) == 0 || !slices.IsSorted(d.Left) || d.Left[0] < 0 {
		bad("want scores of left-out sequences, ascending and not negative")
	}
	if !(d.Level > 0 && d.Level < 1) {
		bad("level %v, want a share between 0 and 1", d.Level)
	}
	d.Usual.checkUsual(d.Dimensions(), bad)
	d.Means.checkMeans(bad)
	d.Later.checkCounts(bad)
	return errors.Join(errs...)
}

// checkFinite reports values that are not finite to bad.
func (d *Detector) checkFinite(bad func(format string, args ...any)) {
	var means Means
	if d.Means != nil {
		means = *d.Means
	}
	for _, t := range []struct {
		name string
		v    []float32
	}{{"center", d.Center}, {"scale", d.Scale}, {"axes", d.Axes}, {"left", d.Left}, {"inputs", d.Inputs}, {"means center", means.Center}, {"means axes", means.Axes}} {
		for i, x := range t.v {
			if x != x || math.IsInf(float64(x), 0) {
				bad("%s[%d] is %v, want a finite number", t.name, i, x)
				break
			}
		}
	}
}

// Score returns the distance of a vector from the training part: the squared length of its
// residual, over Unit. 1 is usual; the largest is math.MaxFloat32, also if numbers overflow.
// Score overwrites the vector. Canonical arithmetic: Scale, then the product of z with each
// direction, a chain of float32 fused multiply-adds over the features in ascending order, then
// Of. judge.Scorer gets the same bits in less time.
func (d *Detector) Score(features []float32) float32 {
	z := features[:len(d.Center)]
	sums := d.scaled(z)
	within := make([]float32, 0, maxDimensions)
	for axes := d.Axes; len(axes) > 0; axes = axes[len(z):] {
		var t float32
		for j, v := range axes[:len(z)] {
			t = canon.FMA(v, z[j], t)
		}
		within = append(within, t)
	}
	return d.Of(sums, within)
}

// ReadInputs writes InputValues statistics of a sequence's inputs to dst: see the package's
// documentation. z is the vector left by Score. Each value is a chain of float32 fused
// multiply-adds over the features in ascending order.
func (d *Detector) ReadInputs(dst, z []float32) {
	z = z[:len(d.Center)]
	for rows, k := d.Inputs, 0; len(rows) > 0; rows, k = rows[len(z):], k+1 {
		var t float32
		for j, v := range rows[:len(z)] {
			t = canon.FMA(v, z[j], t)
		}
		dst[k] = t
	}
}

// scaled replaces features by z = (f - Center) * Scale, a rounded float32 difference and a
// rounded product, and sums the squares: feature j belongs to float64 sum j mod 4, in
// ascending order.
func (d *Detector) scaled(features []float32) (sums [4]float64) {
	center, scale := d.Center, d.Scale
	z := features[:len(center)]
	scale = scale[:len(center)]
	j := 0
	for ; j+4 <= len(center); j += 4 {
		c, s, f := center[j:j+4:j+4], scale[j:j+4:j+4], z[j:j+4:j+4]
		f[0] = float32(float32(f[0]-c[0]) * s[0])
		f[1] = float32(float32(f[1]-c[1]) * s[1])
		f[2] = float32(float32(f[2]-c[2]) * s[2])
		f[3] = float32(float32(f[3]-c[3]) * s[3])
		sums[0] += float64(float64(f[0]) * float64(f[0])) // exact
		sums[1] += float64(float64(f[1]) * float64(f[1]))
		sums[2] += float64(float64(f[2]) * float64(f[2]))
		sums[3] += float64(float64(f[3]) * float64(f[3]))
	}
	for ; j < len(center); j++ {
		z[j] = float32(float32(z[j]-center[j]) * scale[j])
		sums[j%4] += float64(float64(z[j]) * float64(z[j]))
	}
	return sums
}

// Between returns the number of directions between classes, the first ones (Usual.Between).
func (d *Detector) Between() int {
	if d.Usual == nil {
		return 0
	}
	return d.Usual.Between
}

// Of returns the score of a vector with the four sums of squares, and within its products with
// the directions. The sums are added in order; then the squares of the products after the
// first Between are subtracted in order, in float64; a negative result becomes zero; with
// Usual the result is multiplied by 1/exp(x); then rounded to float32, and so is its quotient
// with Unit.
func (d *Detector) Of(sums [4]float64, within []float32) float32 {
	length := sums[0] + sums[1] + sums[2] + sums[3]
	for _, t := range within[d.Between():] {
		length -= float64(float64(t) * float64(t)) // the square is exact
	}
	length = max(0, length)
	if d.Usual != nil {
		length = float64(length * d.Usual.over(within))
	}
	score := float32(length) / d.Unit
	if !(score <= math.MaxFloat32) {
		return math.MaxFloat32
	}
	return score
}

// P returns the p-value of a score: the share of sequences like the training's with a score at
// least as large, estimated rather too large than too small. From 1/(n+1) to 1 for n scores in
// Left; the same bits on every platform.
func (d *Detector) P(score float32) float32 {
	n := len(d.Left)
	below := sort.Search(n, func(i int) bool { return !(d.Left[i] < score) })
	if score != score { // not a number: the largest distance
		below = n
	}
	return d.share(n - below)
}

// Novel reports whether a p-value is at or below the level.
func (d *Detector) Novel(p float32) bool { return p <= d.Level }

// Least returns the smallest possible p-value.
func (d *Detector) Least() float64 { return 1 / float64(len(d.Left)+1) }

// Limit returns the score above which a vector is novel; false: no vector is novel, because
// Left has too few scores.
func (d *Detector) Limit() (score float32, ok bool) {
	n := len(d.Left)
	allowed := sort.Search(n+1, func(larger int) bool { return !d.Novel(d.share(larger)) })
	if allowed == 0 {
		return 0, false
	}
	if allowed > n {
		return -1, true // a level that every score reaches
	}
	return d.Left[n-allowed], true
}

// share returns the p-value if larger scores of Left are at least as large.
func (d *Detector) share(larger int) float32 { return float32(1+larger) / float32(len(d.Left)+1) }
