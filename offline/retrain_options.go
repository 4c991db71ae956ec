package offline

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/eusn-stream/eusn-stream/internal/datafile"
	"github.com/eusn-stream/eusn-stream/internal/detect"
	"github.com/eusn-stream/eusn-stream/internal/fit"
	"github.com/eusn-stream/eusn-stream/internal/groups"
	"github.com/eusn-stream/eusn-stream/internal/timeunit"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// defaultCoverage is the default coverage of the intervals of numbers.
const defaultCoverage = 0.95

// DefaultConfidence is the default confidence of a largest error.
const DefaultConfidence = 0.95

// DefaultMemory is how many bytes a training may hold by default.
const DefaultMemory = 8 << 30

// RetrainOptions select data and settings of a training. Zero fields take the defaults; the paper's protocol is
// reservoir.Paper, Alphas {1}, RawFeatures and RidgeOnly.
type RetrainOptions struct {
	EngineOptions
	Spec        reservoir.Spec   // zero: reservoir.DefaultBank of the data's channels
	Alphas      []float64        // regularizations to choose from by leave-one-out, ascending; a single value is used without a choice; nil: fit.DefaultAlphas
	RawFeatures bool             // the penalty applies to weights of raw features, not of features divided by their deviation
	RidgeOnly   bool             // no linear discriminant, whatever the leave-one-out result; see fit.Options.Discriminant
	Policy      reservoir.Policy // how the live stage will cut streams, and the training cuts the series; zero: marked
	TrainHop    int              // samples from one training sequence of a stream to the next, a multiple of the policy's: windows and endless streams; 0: every prediction is learned from
	Readout     string           // name of the readout; "": "default"
	Coverage    float64          // of sets of classes: the share that holds the true one; 0: no sets; see readout.Coverage. With a Target that of its intervals; 0: 0.95
	Target      string           // column of numbers that are learned instead of classes; of a data set that SetTarget has read
	Cap         *float32         // with a Target: larger numbers are learned as this one; nil: none
	Clip        bool             // with a Target: limits predicted numbers to the range of the training's; see readout.Interval
	Random      *RandomOptions   // with a Target: also learns from random features, and chooses by leave-one-out; nil: no
	Segments    *SegmentOptions  // for classes and the policy count: also learns from segments of the sequence, and chooses by leave-one-out; nil: no
	Priors      PerClass         // expected share of each class in later use; zero: as in the training; see fit.Options.Priors
	Weights     PerClass         // how much a sequence of each class counts; zero: all alike; see fit.Options.ClassWeights
	Tool        string           // program and version, for the model's metadata
	Rate        float64          // sampling rate of the data, Hz; 0: from the times of a recording's samples
	Front       Front            // processing of samples before the network; zero: none
	Settings    []string         // channels that determine the operating regime: the others are standardized within each regime, and the settings are left out; see reservoir.Regimes; nil: none
	Regimes     int              // number of operating regimes; 0: chosen by the data
	Parts       []byte           // JSON of eusn-stream offline split; the groups of part train are learned from; nil: the archive's own training part, or all of a recording
	Groups      string           // rule of the sequences that leave-one-out leaves out together: stream, day, a column such as machine, or a regular expression; "": by origin, or the groups of Parts (docs/groups.md)

	Early   *EarlyOptions     // also learn from prefixes, and when one suffices; nil: no
	Merges  map[string]string // classes that count as another class, by the name of each; nil: none
	Novelty *NoveltyOptions   // also train a detector of data unlike the training part; nil: no

	CoverageByClass bool    // the Coverage is that of each class; false: of all sequences together
	MaxError        float64 // of the answers: the share that may be wrong; the others abstain; 0: all answer; see package abstain
	Confidence      float64 // confidence of MaxError; 0: DefaultConfidence

	// Memory bounds the memory of the training, in bytes: the data, two blocks of features, and the learner of the
	// readout. Features that must all be kept and do not fit go to a temporary file; the model is the same. 0:
	// DefaultMemory.
	Memory int64

	Planned func(RetrainReport) // optional: gets the planned training before the work begins

	adaptive float64 // see bridge.Sequences
	most     int     // about so many sequences are learned from, an equal share of each class; 0: all
}

// RetrainReport describes the training data and the results.
type RetrainReport struct {
	Dataset      string         `json:"dataset"`
	Series       int            `json:"series"`                    // of a recording: its streams
	Samples      int64          `json:"samples"`                   // of all series
	Sequences    int            `json:"sequences"`                 // training sequences, cut from the series by the policy
	TrainHop     int            `json:"train_hop,omitzero"`        // samples from one training sequence of a stream to the next; 0: every prediction
	Groups       int            `json:"groups"`                    // groups of sequences of one origin, left out together by leave-one-out
	Divided      []string       `json:"divided,omitempty"`         // classes of only one group, which was divided for leave-one-out: the result includes neighbors, and is too good
	MinLength    int64          `json:"min_length"`                // of the shortest
	MaxLength    int64          `json:"max_length"`                // of the longest
	MedianLength int            `json:"median_length,omitzero"`    // only of networks of kind mixed: lags and scales depend on the median
	Sampling     Sampling       `json:"sampling,omitzero"`         // zero: not known
	Unused       int64          `json:"unused_samples"`            // after the last sequence of their series
	Mixed        int            `json:"mixed,omitzero"`            // sequences left out because their samples have several labels
	Missing      int64          `json:"missing"`                   // values filled, see Retrain
	Unlabeled    int            `json:"unlabeled"`                 // training series, or a recording's sequences, left out for want of a class
	Empty        int            `json:"empty"`                     // training series without a single value: the class learns the look of a missing signal
	Silent       []string       `json:"silent_channels,omitempty"` // channels without a single value in the training part
	Plan         fit.Plan       `json:"plan"`                      // how the readout learns, and the memory it takes with all else
	Readout      fit.Report     `json:"readout"`
	ByGroup      *groups.Report `json:"by_group,omitempty"` // nil without RetrainOptions.Groups
	Random       *RandomReport  `json:"random,omitempty"`   // nil without RetrainOptions.Random, or if no channel varies
	Segments     *SegmentReport `json:"segments,omitempty"` // nil if the training did not compare segments
	Early        *EarlyReport   `json:"early,omitempty"`    // nil without RetrainOptions.Early
	Novelty      *detect.Report `json:"novelty,omitempty"`  // nil without RetrainOptions.Novelty
	StateSeconds float64        `json:"state_seconds"`      // of the passes over the series, with the sums of their features
	FitSeconds   float64        `json:"fit_seconds"`        // of the readout
}

// Sampling is the sampling rate of the training data.
type Sampling struct {
	Rate    float64 `json:"rate"`                         // Hz
	Longest int64   `json:"longest_interval_ns,omitzero"` // between two samples, in all but 2 % of the sequences, ns; 0: not known
}

func (o RetrainOptions) withDefaults(channels int) RetrainOptions {
	if o.Spec.Channels == 0 {
		o.Spec = reservoir.DefaultBank(channels)
	}
	o.Spec = o.Spec.WithDefaults()
	if o.Policy == (reservoir.Policy{}) {
		o.Policy = reservoir.Policy{Kind: reservoir.Marked}
	}
	if o.Readout == "" {
		o.Readout = "default"
	}
	if o.Target != "" && o.Coverage == 0 {
		o.Coverage = defaultCoverage
	}
	if o.MaxError != 0 && o.Confidence == 0 {
		o.Confidence = DefaultConfidence
	}
	return o
}

// checkTraining finds errors before any data are read.
func checkTraining(src labeledData, opt RetrainOptions) error {
	if err := opt.Policy.Validate(); err != nil {
		return err
	}
	if err := opt.checkHop(); err != nil {
		return err
	}
	if opt.Spec.Channels != len(src.channels) {
		return fmt.Errorf("offline: the network reads %d channels, %s has %d", opt.Spec.Channels, src.what, len(src.channels))
	}
	if err := cmp.Or(opt.checkTarget(), opt.Random.checkRandom(opt.Target), opt.checkSegments()); err != nil {
		return err
	}
	if src.target != opt.Target {
		return fmt.Errorf("offline: %s has numbers of %q, want those of %q", src.what, src.target, opt.Target)
	}
	if len(src.classes) < 2 && opt.Target == "" {
		return fmt.Errorf("offline: %s has the one class %q: there is nothing to tell apart, want at least two", src.what, src.classes[0])
	}
	if opt.Rate != 0 {
		if err := timeunit.CheckRate(opt.Rate); err != nil {
			return fmt.Errorf("offline: %w", err)
		}
	}
	if err := cmp.Or(opt.Front.check(opt.Policy), opt.checkSettings(src.channels)); err != nil {
		return err
	}
	if err := opt.Early.check(opt); err != nil {
		return err
	}
	_, wrong := opt.Priors.in("priors", src.classes)
	if _, err := opt.Weights.in("class weights", src.classes); cmp.Or(wrong, err) != nil {
		return cmp.Or(wrong, err)
	}
	return opt.Spec.ForLength(1).Validate() // no error depends on the length
}

// checkNumeric refuses archives that no network can read directly.
func checkNumeric(d *archive.Dataset) error {
	if err := d.Validate(); err != nil {
		return err
	}
	if len(d.Channels) == 0 {
		return datafile.InContent(fmt.Errorf("offline: data set %q %w", d.Name, datafile.ErrTokens))
	}
	return nil
}

// how describes the choice of the regularization, with the leave-one-out result.
func (r *RetrainReport) how(opt RetrainOptions) string {
	if r.Novelty != nil && r.Readout.Alpha == 0 {
		return "none: healthy data alone"
	}
	text := r.Readout.String()
	if r.Readout.Weights != nil {
		text += ", with class weights"
	}
	if opt.Priors.given() {
		text += ", before the priors"
	}
	if r.ByGroup == nil {
		return text
	}
	return text + "; " + r.ByGroup.String()
}

// checkHop refuses a hop between two predictions of the policy, or of a policy without one.
func (o *RetrainOptions) checkHop() error {
	steps := map[reservoir.PolicyKind]int{reservoir.Window: o.Policy.Hop, reservoir.Endless: o.Policy.Early}
	switch step, has := steps[o.Policy.Kind]; {
	case o.TrainHop == 0:
		return nil
	case !has:
		return fmt.Errorf("offline: a training hop under the policy %s, want the policy window or endless: other sequences do not overlap", o.Policy.Kind)
	case o.TrainHop < step || o.TrainHop%step != 0:
		return fmt.Errorf("offline: a training hop of %d samples, want a multiple of the %d samples between two predictions", o.TrainHop, step)
	}
	return nil
}

// checkTarget refuses options without a meaning for numbers.
func (o RetrainOptions) checkTarget() error {
	switch {
	case o.Target == "" && (o.Cap != nil || o.Clip):
		return errors.New("offline: a cap or limits of predicted numbers, and no target: want a target, too")
	case o.Target == "":
		return nil
	case o.Cap != nil && *o.Cap-*o.Cap != 0:
		return fmt.Errorf("offline: a cap of %v, want a finite number", *o.Cap)
	case o.Priors.given() || o.Weights.given() || o.CoverageByClass || o.MaxError != 0:
		return errors.New("offline: a target, and priors, class weights, a coverage by class or a largest error: numbers have no classes: leave these out")
	case o.Early != nil:
		return errors.New("offline: a target, and a rule for early decisions, which needs classes: specify one of them")
	case o.Novelty.alone():
		return errors.New("offline: a target, and healthy data alone: a model of numbers, or one that knows only what is healthy: want one of them")
	}
	return nil
}
