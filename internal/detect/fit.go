package detect

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/dense"
	"github.com/eusn-stream/eusn-stream/readout/novelty"
)

// Sizes that were measured to be sufficient: docs/results.md.
const (
	Dimensions = 32   // of the subspace
	Folds      = 10   // parts, each left out in turn
	Learned    = 512  // training sequences of a subspace, at most
	Most       = 8192 // sequences kept for learning and leaving out
	Fewest     = 8    // minimum number of sequences
)

var errOneGroup = errors.New("detect: all sequences are of one group, want at least two: what is left out must not be learned from")

// ErrConstant reports that no feature varies, so that no vector is unusual.
var ErrConstant = errors.New("detect: features are constant")

// Options are the options of Fit.
type Options struct {
	// Scale returns a factor for each centered feature from its mean and variance; 0 drops a
	// feature. Scale may change its arguments. nil: 1 over the deviation.
	Scale func(mean, variance []float64) []float64
	// Groups is the group of each sequence; a group is left out as a whole. nil: each sequence
	// is a group.
	Groups []int
	Level  float64 // of the detector; 0: DefaultLevel
	// ByPlace divides residuals by the usual residual at a sequence's place within the
	// subspace (Usual): for several classes with different residuals.
	ByPlace bool
	// Splice and Classes (the class of each sequence) add directions from whole to spliced
	// sequences; a sequence unlike the training's along a direction is novel. Splice requires
	// ByPlace. nil: no such directions.
	Splice  Splice
	Classes []int
	// Inputs are the Statistics of the channels of each sequence, row-major, for
	// Detector.ReadInputs; nil: no inputs.
	Inputs []float64
	// Spans are the places of the sequences in time, for Report.Later; nil: not measured. ByPlace
	// has no such measure.
	Spans []Span
	// Aside scores each sequence of a single run by sequences of only one side in time, if the
	// run is long enough: the p-values then include the drift of the run.
	Aside bool
	// Statistics are those of the front end after each sequence (reservoir.Front.Statistics),
	// row-major, Means of each channel, at most MostStatistics of a sequence, for Detector.Means.
	// nil: none. ByPlace has no means.
	Statistics []float32
	Means      int
	dims       int  // 0: Dimensions
	part       bool // Later is not measured
}

// DefaultLevel is the share of sequences like the training's that may be novel.
const DefaultLevel = 0.01

// Report describes a fitted detector.
type Report struct {
	Sequences  int     `json:"sequences"`  // learned from and left out in turn
	Groups     int     `json:"groups"`     // of sequences
	Dimensions int     `json:"dimensions"` // of the subspace
	Level      float64 `json:"level"`      // p-values up to Level are novel
	Least      float64 `json:"least"`      // the smallest possible p-value

	// Inputs are the explained shares of the inputs' variance, by leave-one-out: 1 is all, 0
	// no more than the mean. Each channel has level, spread and pace.
	Inputs []float64 `json:"inputs,omitempty"`

	// Later are the false alarms on the last third of each run, of a detector of the first two
	// thirds; nil: not measured.
	Later *novelty.Later `json:"later,omitempty"`

	// Checks are the results of the new detector on given signals.
	Checks []Check `json:"checks,omitempty"`
}

// Check counts the sequences of a signal that are novel to a detector.
type Check struct {
	Signal    string `json:"signal"`
	Sequences int    `json:"sequences"`
	Novel     int    `json:"novel"`
}

// checkOptions rejects options that are invalid for n sequences.
func (o *Options) checkOptions(n int) error {
	if !(o.Level > 0 && o.Level < 1) {
		return fmt.Errorf("detect: level %v, want a share between 0 and 1", o.Level)
	}
	if o.Splice != nil && (!o.ByPlace || len(o.Classes) != n) {
		return fmt.Errorf("detect: spliced sequences of %d classes for %d sequences, by place %v: want the class of each, and by place", len(o.Classes), n, o.ByPlace)
	}
	if o.Spans != nil && (o.ByPlace || len(o.Spans) != n) {
		return fmt.Errorf("detect: places in time of %d sequences for %d sequences, by place %v: want the place of each, and not by place", len(o.Spans), n, o.ByPlace)
	}
	return o.checkStatistics(n)
}

// divide divides sequences into folds and keeps groups whole. It returns all sequences, the
// fold of each sequence, and for each fold the sequences outside the fold.
func divide(group []int, folds int) (all, of []int, inside [][]int) {
	all, of, inside = make([]int, len(group)), make([]int, len(group)), make([][]int, folds)
	for i, g := range group {
		all[i], of[i] = i, g%folds
		for fold := range folds {
			if fold != of[i] {
				inside[fold] = append(inside[fold], i)
			}
		}
	}
	return all, of, inside
}

// membersOf returns the sequences of a fold.
func membersOf(of []int, fold int) (members []int) {
	for i := range of {
		if of[i] == fold {
			members = append(members, i)
		}
	}
	return members
}

// Fit learns a detector from n feature vectors; features is their row-major matrix and stays
// the caller's. Time: for each fold and once more, with m = min(n, Learned), k dimensions and F
// features, m m F/2 + m F k multiply-adds, and n F k in all for left-out sequences; and 2 m m
// F for each spliced direction. Memory: m F float32, twice as much with splices, and k F
// float64.
func Fit(ctx context.Context, features []float32, n int, opt Options) (*novelty.Detector, Report, error) {
	if n < Fewest || len(features)%n != 0 || len(features) == 0 {
		return nil, Report{}, fmt.Errorf("detect: %d values of %d sequences, want whole rows of at least %d sequences", len(features), n, Fewest)
	}
	o := opt.withDefaults()
	if err := o.checkOptions(n); err != nil {
		return nil, Report{}, err
	}
	group, groups, err := grouped(o.Groups, n)
	if err != nil {
		return nil, Report{}, err
	}
	l := learner{x: features, f: len(features) / n, opt: o}
	all, of, inside := divide(group, min(Folds, groups))
	if before, folds := divideAside(o); folds != nil {
		of, inside = before, folds
	}
	l.pairs = l.pairings(inside)
	s, err := l.learn(ctx, all)
	if err != nil {
		return nil, Report{}, err
	}
	left, products := make([]float64, n), dense.New(n, min(Places, s.axes.Cols-s.between))
	between := dense.New(n, s.between)
	for fold := range inside {
		other, err := l.learn(ctx, inside[fold])
		if err != nil {
			return nil, Report{}, err
		}
		place, err := s.placed(other, products.Cols)
		if err != nil {
			return nil, Report{}, err
		}
		l.scores(other, membersOf(of, fold), left, place, products, between)
	}
	var d *novelty.Detector
	if o.ByPlace {
		d, err = l.detectorByPlace(ctx, s, products, between, of, left)
	} else {
		d, err = l.detectorWithMeans(ctx, s, of, inside, left)
	}
	if err != nil {
		return nil, Report{}, err
	}
	r := Report{Sequences: n, Groups: groups, Dimensions: s.axes.Cols, Level: o.Level, Least: d.Least()}
	if d.Inputs, r.Inputs, err = l.inputs(s, all); err != nil {
		return nil, Report{}, err
	}
	if r.Later, err = l.measureLater(ctx, o); err != nil {
		return nil, Report{}, err
	}
	d.Later = r.Later
	return d, r, d.Validate()
}

func (o Options) withDefaults() Options {
	if o.Scale == nil {
		o.Scale = deviation
	}
	if o.Level == 0 {
		o.Level = DefaultLevel
	}
	if o.dims == 0 {
		o.dims = Dimensions
	}
	return o
}

// grouped numbers the groups in the order of their first sequences.
func grouped(of []int, n int) (group []int, groups int, err error) {
	if of == nil {
		group = make([]int, n)
		for i := range group {
			group[i] = i
		}
		return group, n, nil
	}
	if len(of) != n {
		return nil, 0, fmt.Errorf("detect: groups of %d sequences, want %d", len(of), n)
	}
	number := map[int]int{}
	for _, g := range of {
		if _, known := number[g]; !known {
			number[g] = len(number)
		}
		group = append(group, number[g])
	}
	if len(number) < 2 {
		return nil, 0, errOneGroup
	}
	return group, len(number), nil
}

// deviation returns 1 over the deviation; 0 if the deviation is rounding of the mean.
func deviation(mean, variance []float64) []float64 {
	scale := make([]float64, len(mean))
	for j, v := range variance {
		if dev := math.Sqrt(v); dev > 0x1p-22*math.Abs(mean[j]) && dev > math.SmallestNonzeroFloat32 {
			scale[j] = 1 / dev
		}
	}
	return scale
}

// learner holds the data shared by all folds.
type learner struct {
	x     []float32 // sequences x f
	f     int
	opt   Options
	pairs [][]int // classes spliced with each other, for each spliced direction
}

// subspace is learned from some sequences.
type subspace struct {
	mean, scale []float64
	axes        dense.Matrix // f x dimensions; orthonormal after the first between
	between     int          // number of spliced directions, the first axes
}

// thinned takes Learned rows at even distances.
func thinned(rows []int) []int {
	if len(rows) <= Learned {
		return rows
	}
	some := make([]int, Learned)
	for i := range some {
		some[i] = rows[i*len(rows)/Learned]
	}
	return some
}

// learn learns a subspace from Learned of the rows, at even distances.
func (l *learner) learn(ctx context.Context, rows []int) (*subspace, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	rows = thinned(rows)
	z := l.gather(rows)
	s := &subspace{}
	s.mean, s.scale = statistics(z, l.opt.Scale)
	if !slices.ContainsFunc(s.scale, func(v float64) bool { return v != 0 }) {
		return nil, ErrConstant
	}
	z.Center, z.Scale = s.mean, s.scale
	n := len(rows)
	kernel := dense.New(n, n)
	dense.AddKernel(kernel, z)
	s.between = len(l.pairs)
	vectors, values, err := leading(ctx, kernel, min(l.opt.dims-s.between, n-1))
	if err != nil {
		return nil, err
	}
	for i := range vectors.Rows { // the axes are Z'U / sqrt(values)
		for c, v := range values {
			vectors.Row(i)[c] /= math.Sqrt(v)
		}
	}
	s.axes = dense.New(l.f, s.between+len(values))
	dense.MultiplySamples(s.axes.Sub(0, s.between, l.f, len(values)), 1, z, true, vectors)
	if s.between == 0 {
		return s, nil
	}
	joint := z
	joint.X, joint.Rows = append(z.X, make([]float32, n*l.f)...), 2*n
	for k, classes := range l.pairs {
		l.splices(joint.X[n*l.f:], l.among(rows, classes))
		if err := l.between(ctx, s.axes.Sub(0, k, l.f, 1), joint); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// gather copies some sequences next to each other.
func (l *learner) gather(rows []int) dense.Samples {
	x := make([]float32, len(rows)*l.f)
	for i, r := range rows {
		copy(x[i*l.f:(i+1)*l.f], l.x[r*l.f:(r+1)*l.f])
	}
	return dense.Samples{Rows: len(rows), Cols: l.f, X: x, Stride: l.f}
}

// statistics returns the means of the features, and their factors.
func statistics(z dense.Samples, scale func(mean, variance []float64) []float64) ([]float64, []float64) {
	mean, variance := make([]float64, z.Cols), make([]float64, z.Cols)
	dense.Parallel(z.Cols, 256, func(lo, hi int) {
		for i := range z.Rows {
			for j := lo; j < hi; j++ {
				mean[j] += float64(z.X[i*z.Stride+j])
			}
		}
		for j := lo; j < hi; j++ {
			mean[j] /= float64(z.Rows)
		}
		for i := range z.Rows {
			for j := lo; j < hi; j++ {
				d := float64(z.X[i*z.Stride+j]) - mean[j]
				variance[j] += float64(d * d)
			}
		}
		for j := lo; j < hi; j++ {
			variance[j] /= float64(z.Rows)
		}
	})
	return mean, scale(mean, variance)
}

// scores writes the squared residuals of some sequences to their positions in to, the products
// within the subspace, converted by place, to products, and the products along the spliced
// directions to between.
func (l *learner) scores(s *subspace, rows []int, to []float64, place *placed, products, between dense.Matrix) {
	for len(rows) > 0 {
		some := rows[:min(len(rows), Learned)]
		rows = rows[len(some):]
		z := l.gather(some)
		z.Center, z.Scale = s.mean, s.scale
		inside := dense.New(len(some), s.axes.Cols)
		dense.MultiplySamples(inside, 1, z, false, s.axes)
		for i, row := range some {
			place.of(products.Row(row), inside.Row(i)[s.between:])
			for k, t := range inside.Row(i)[:s.between] {
				between.Row(row)[k] = t + place.between[k]
			}
		}
		dense.Parallel(len(some), 8, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				sum := 0.
				for j, f := range z.X[i*l.f : (i+1)*l.f] {
					v := (float64(f) - s.mean[j]) * s.scale[j]
					sum += float64(v * v)
				}
				for _, t := range inside.Row(i)[s.between:] {
					sum -= float64(t * t)
				}
				to[some[i]] = max(0, sum)
			}
		})
	}
}

// detector rounds the subspace to float32, in units of the median left-out residual.
func (l *learner) detector(s *subspace, left []float64) *novelty.Detector {
	sorted := slices.Sorted(slices.Values(left))
	unit := sorted[len(sorted)/2]
	if float32(unit) == 0 { // for equal sequences: any other sequence is far
		unit = 1
	}
	d := &novelty.Detector{Center: make([]float32, l.f), Scale: make([]float32, l.f), Axes: make([]float32, l.f*s.axes.Cols), Left: make([]float32, len(left)), Unit: float32(unit), Level: float32(l.opt.Level)}
	for i, v := range sorted {
		d.Left[i] = float32(v / unit)
	}
	for j := range l.f {
		d.Center[j], d.Scale[j] = float32(s.mean[j]), float32(s.scale[j])
		for i, v := range s.axes.Row(j) {
			d.Axes[i*l.f+j] = float32(v)
		}
	}
	return d
}
