package bridge

import (
	"context"

	"github.com/eusn-stream/eusn-stream/internal/adaptive"
	"github.com/eusn-stream/eusn-stream/internal/groups"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Functions of package offline.
var (
	// Update gives a model another readout, trained on known features: the readout of offline.Retrain on a recording
	// with these sequences in this order and the same network. From options, an offline.RetrainOptions, it reads the
	// settings of the readout, the memory and Tool. The model's network, policy, front end and input ranges are not
	// changed. report is an offline.RetrainReport.
	//
	// From sums and the same kept sequences the readout is the same, except for the rounding of float64 sums. There
	// must be more sequences than features then.
	Update func(ctx context.Context, m *reservoir.Model, k Sequences, options any, progress archive.Progress) (next *reservoir.Model, report any, err error)
	// CountGroups counts labeled data in each group, and of each class in the group: the series of a data set, or the
	// samples of a recording. A label of a prediction counts as one sample.
	CountGroups func(ctx context.Context, d archive.Data, rule *groups.Rule) ([]groups.Size, error)
	// Adapt lets the labels of the predictions of an *offline.Evaluation of m move the thresholds of their sets, or
	// the edges of their intervals, at a rate above 0 and below 1 (package adaptive). late is the number of further
	// predictions before a label comes.
	Adapt func(evaluation any, m *reservoir.Model, rate float64, late int) (Adapted, error)
	// OpenTrials opens the data that offline.Retrain learns from, for several trainings. options is an
	// offline.RetrainOptions.
	OpenTrials func(ctx context.Context, d archive.Data, options any) (*Trials, error)
)

// Trials are data for several trainings.
type Trials struct {
	Channels, Classes []string
	Read              func(ctx context.Context, visit func(Samples)) error
	// Try is offline.Retrain on at most most sequences, an equal share of each class, without the model. options is an
	// offline.RetrainOptions with the data's settings of OpenTrials, and report an offline.RetrainReport.
	Try func(ctx context.Context, options any, most int) (report any, err error)
}

// Samples are the next samples of a stream, valid until the next call.
type Samples struct {
	Stream int       // number of the stream
	Values []float32 // samples x channels, row-major; NaN if missing
	Labels []int     // class of each sample; -1: unknown
	Times  []int64   // of each sample, ns, archive.NoTime if unknown; nil: no sample has a time
	Ends   []bool    // whether a sequence ends with the sample; nil: nowhere
	Last   bool      // the stream ends
}

// Adapted is the result of adapting. Both reports are nil if nothing is labeled.
type Adapted struct {
	Adaptive        *adaptive.Report  `json:"adaptive,omitempty"`         // of sets of classes
	AdaptiveNumbers *adaptive.Numbers `json:"adaptive_numbers,omitempty"` // of intervals of numbers
	Changed         *reservoir.Model  `json:"-"`                          // the model with the thresholds or the interval after the last label; nil if nothing is labeled
}
