package offline

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// maxFeatureValues bounds series times features of one training: 8 GiB of
// float32, less where an int could not count their bytes.
const maxFeatureValues = min(1<<31, math.MaxInt/4)

// RetrainOptions say what to train. Zero fields take the defaults; the paper's
// protocol is a PaperNetwork, Alphas {1}, RawFeatures and RidgeOnly.
type RetrainOptions struct {
	EngineOptions
	Spec        reservoir.Spec   // zero: DefaultBank of the data's channels
	Alphas      []float64        // regularisations to choose from by leave-one-out, ascending; one is taken as it is; nil: readout.DefaultAlphas
	RawFeatures bool             // penalise weights of raw features, not of features divided by their deviation
	RidgeOnly   bool             // no linear discriminant, whatever leave-one-out says; see readout.Options.Discriminant
	Policy      reservoir.Policy // how the live stage will cut streams; zero: marked
	Head        string           // name of the head; "": "default"
	Tool        string           // program and version, for the model's metadata
}

// RetrainReport says what was trained on and how it went.
type RetrainReport struct {
	Dataset      string         `json:"dataset"`
	Series       int            `json:"series"`
	Samples      int64          `json:"samples"`
	Missing      int64          `json:"missing"`                   // values filled, see Retrain
	Unlabelled   int            `json:"unlabelled"`                // training series left out for want of a class
	Empty        int            `json:"empty"`                     // training series without a single value: they teach the class what nothing looks like
	Silent       []string       `json:"silent_channels,omitempty"` // channels without a single value in the training part
	Readout      readout.Report `json:"readout"`
	StateSeconds float64        `json:"state_seconds"` // wall clock, of the pass over the series
	FitSeconds   float64        `json:"fit_seconds"`   // wall clock, of the readout
}

// Retrain makes a model from the training part of d and never looks at the
// rest: the input transform's constants, the network drawn from the seed, one
// pass of every series from a reset state, and a linear classifier of the
// features at their ends, the ridge classifier or the discriminant. The same data and options give the same model on
// any number of threads, engine and amd64 processor. On other architectures
// the network is still the same, but the head may differ in its last bits:
// there compilers fuse float64 products and sums.
//
// A missing value holds the one before it in its channel; at the beginning of
// a series it is the channel's training mean (0 where the network does not
// standardise).
func Retrain(ctx context.Context, d *Dataset, opt RetrainOptions, progress Progress) (*reservoir.Model, RetrainReport, error) {
	m, report, err := retrain(ctx, d, opt.withDefaults(d), progress)
	if err == nil {
		err = m.Validate()
	}
	if err != nil {
		return nil, RetrainReport{}, err
	}
	return m, report, nil
}

func (o RetrainOptions) withDefaults(d *Dataset) RetrainOptions {
	if o.Spec.Kind == "" {
		o.Spec = DefaultBank(len(d.Channels))
	}
	if o.Policy == (reservoir.Policy{}) {
		o.Policy = reservoir.Policy{Kind: reservoir.Marked}
	}
	if o.Head == "" {
		o.Head = "default"
	}
	return o
}

func retrain(ctx context.Context, d *Dataset, opt RetrainOptions, progress Progress) (*reservoir.Model, RetrainReport, error) {
	series, report, err := trainingPart(d, opt)
	if err != nil {
		return nil, report, err
	}
	net, err := newNetwork(d, series, opt.Spec)
	if err != nil {
		return nil, report, err
	}
	start := time.Now()
	features, missing, err := harvest(ctx, d, series, net, opt.EngineOptions, progress)
	if err != nil {
		return nil, report, err
	}
	report.Missing = missing
	report.StateSeconds = time.Since(start).Seconds()

	start = time.Now()
	labels := make([]int, len(series))
	for k, i := range series {
		labels[k] = d.Series[i].Label
	}
	head, fit, err := readout.Fit(ctx, features, labels, d.Classes, readout.Options{
		Alphas: opt.Alphas, Standardise: !opt.RawFeatures, Discriminant: !opt.RidgeOnly,
		Progress: func(done float64) { progress.report(int64(100*done), 100, "percent of the readout fitted") },
	})
	if err != nil {
		return nil, report, fmt.Errorf("offline: data set %q: %w", d.Name, err)
	}
	head.Name = opt.Head
	report.Readout = fit
	report.FitSeconds = time.Since(start).Seconds()
	return newModel(d, series, net, head, report, opt), report, nil
}

// newNetwork draws the network and gives it the constants of the listed
// series that its transform uses.
func newNetwork(d *Dataset, series []int, spec reservoir.Spec) (*reservoir.Network, error) {
	net, err := reservoir.Draw(spec)
	if err != nil {
		return nil, err
	}
	norm := newNorm(d, series)
	if spec.Standardise {
		net.Norm.Mean, net.Norm.Scale = norm.Mean, norm.Scale
	}
	if spec.Difference {
		net.Norm.Diff = norm.Diff
	}
	return net, nil
}

// trainingPart checks everything that can be wrong before the work begins,
// lists the labelled training series and counts the part.
func trainingPart(d *Dataset, opt RetrainOptions) ([]int, RetrainReport, error) {
	spec, r := opt.Spec, RetrainReport{Dataset: d.Name}
	if err := checkNumeric(d); err != nil {
		return nil, r, err
	}
	if err := opt.Policy.Validate(); err != nil {
		return nil, r, err
	}
	if spec.Channels != len(d.Channels) {
		return nil, r, fmt.Errorf("offline: the network reads %d channels, data set %q has %d", spec.Channels, d.Name, len(d.Channels))
	}
	var series []int
	for _, i := range d.Part(Train) {
		if d.Series[i].Label < 0 {
			r.Unlabelled++
			continue
		}
		series = append(series, i)
		r.Samples += int64(d.Len(i))
	}
	r.Series = len(series)
	if err := d.checkRange(series); err != nil {
		return nil, r, err
	}
	_, r.Empty, r.Silent = d.absent(series)
	if len(series) == 0 {
		return nil, r, fmt.Errorf("offline: data set %q has no labelled training series", d.Name)
	}
	if len(d.Classes) < 2 {
		return nil, r, fmt.Errorf("offline: data set %q has the one class %q: there is nothing to tell apart, want at least two", d.Name, d.Classes[0])
	}
	if err := spec.Validate(); err != nil {
		return nil, r, err
	}
	if f := spec.FeatureCount(); f > maxFeatureValues/len(series) {
		return nil, r, fmt.Errorf("offline: %d series of %d features, want at most %d values in all: take fewer units or features", len(series), f, maxFeatureValues)
	}
	return series, r, nil
}

// checkNumeric refuses archives that no network reads as they are.
func checkNumeric(d *Dataset) error {
	if err := d.Validate(); err != nil {
		return err
	}
	if len(d.Channels) == 0 {
		return InContent(fmt.Errorf("offline: data set %q holds token lists, want numeric channels: embed the tokens first, with eusn-stream offline embed", d.Name))
	}
	return nil
}

// harvest returns the features of each listed series at its end, row-major.
func harvest(ctx context.Context, d *Dataset, series []int, net *reservoir.Network, opt EngineOptions, progress Progress) (features []float32, missing int64, err error) {
	f := net.Spec.FeatureCount()
	features = make([]float32, len(series)*f)
	missing, err = pass{EngineOptions: opt, net: net, take: func(e reservoir.Engine, slot, k int, _ []float32) error {
		return e.Features(slot, features[k*f:(k+1)*f])
	}}.run(ctx, d, series, progress)
	return features, missing, err
}

func newModel(d *Dataset, series []int, net *reservoir.Network, head *readout.Linear, r RetrainReport, opt RetrainOptions) *reservoir.Model {
	m := &reservoir.Model{
		Network: net, Heads: []*readout.Linear{head}, Policy: opt.Policy, Channels: slices.Clone(d.Channels),
		Training: reservoir.Training{
			Dataset: d.Name, Fingerprint: d.Fingerprint(Train), Series: r.Series, Samples: r.Samples,
			Alpha: alphaText(r.Readout), Tool: opt.Tool, Inputs: inputRanges(d, series),
		},
	}
	for _, i := range d.Part(Train) {
		if d.Series[i].Label >= 0 {
			m.Training.MaxLength = max(m.Training.MaxLength, d.Len(i))
		}
	}
	return m
}

// alphaText is the regularisation, and the kind of head, for people.
func alphaText(r readout.Report) string {
	for _, t := range r.Trials {
		switch {
		case t.Alpha != r.Alpha:
		case r.Discriminant:
			return fmt.Sprintf("%.4g, linear discriminant by leave-one-out (accuracy %.4f, log-loss %.4g)", t.Alpha, t.Discriminant.Accuracy, t.Discriminant.LogLoss)
		default:
			return fmt.Sprintf("%.4g, by leave-one-out (accuracy %.4f, mean squared error %.4g)", t.Alpha, t.Accuracy, t.Error)
		}
	}
	return fmt.Sprintf("%.4g, given", r.Alpha)
}
