package offline

import (
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/abstain"
	"github.com/eusn-stream/eusn-stream/internal/groups"
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/internal/quality"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Prediction is the stage's prediction at a place of a series, or of a stream of a recording.
type Prediction struct {
	ID       string        // of the series, or of the stream
	Position int64         // samples of the series so far
	Samples  int           // samples of the sequence
	Time     int64         // of the last sample, ns since 1970 in UTC; archive.NoTime: unknown
	Seq      *int64        // of the last sample, as the recording numbers it; nil: no recording
	Part     archive.Split // of the last sample; empty: the data are not divided
	Label    int           // index into Evaluation.Classes of the class that all samples of the sequence have; -1 if there is none
	Unknown  bool          // the label is a class that the readout does not know
	// Truth is the true number, of a regression; NaN if unknown. Label is 0 for a known number.
	Truth          float64
	outcome.Answer // with the flags that the stage sets for the same samples
}

// Evaluation is the result of a readout on one part of a data set, or on a recording.
type Evaluation struct {
	Dataset     string           `json:"dataset"`
	Split       archive.Split    `json:"split,omitempty"` // empty for a recording
	Fingerprint string           `json:"fingerprint"`     // of the data, see Dataset.Fingerprint
	Model       string           `json:"model"`           // fingerprint of the model
	Readout     string           `json:"readout"`
	Policy      reservoir.Policy `json:"policy"`         // of the model: how the series were cut
	Classes     []string         `json:"classes"`        // the readout's, in its order
	Series      int              `json:"series"`         // all of the part; of a recording: its streams
	Sequences   int              `json:"sequences"`      // predictions counted below: predictions that close a sequence; early ones under the policy endless, which closes no sequence
	Mixed       int              `json:"mixed,omitzero"` // sequences with several labels
	Labeled     int              `json:"labeled"`        // sequences with a known class; all following fields count only these
	Unused      int64            `json:"unused_samples"` // samples after the last prediction of their series
	Missing     int64            `json:"missing"`        // values filled, see Retrain
	Empty       int              `json:"empty"`          // series without a single value, predicted all the same

	// Counts of an evaluation.
	Correct   int     `json:"correct"`           // predictions equal to the label
	Accuracy  float64 `json:"accuracy"`          // Correct / Labeled, 0 if Labeled is 0
	Balanced  float64 `json:"balanced_accuracy"` // mean over the classes present of the share recognized
	Confusion [][]int `json:"confusion"`         // sequences of class row predicted as class column

	Numbers *NumberErrors `json:"numbers,omitempty"` // of a regression, which has no accuracy; nil if no number is known, or classes are predicted. Numbers above the readout's cap count as the cap
	Last    *NumberErrors `json:"last,omitempty"`    // of the last of these predictions of each series or stream; nil if each has only one

	Answers *AnswerCount `json:"answers,omitempty"` // nil if nothing is labeled, or the readout answers always

	Sets *quality.Sets `json:"sets,omitempty"` // nil if nothing is labeled, or the readout makes no sets

	Quality     *quality.Report `json:"quality,omitempty"`  // nil if nothing is labeled
	ByGroup     *groups.Report  `json:"by_group,omitempty"` // nil without EvaluateOptions.Groups
	Novelty     *NoveltyCount   `json:"novelty,omitempty"`  // nil if the readout has no detector
	Early       *EarlyCount     `json:"early,omitempty"`    // nil without early predictions, or if these are counted above
	Flagged     map[string]int  `json:"flagged,omitempty"`  // predictions that carry a flag of unlikeness to the training, by its name; early ones, too
	Predictions []Prediction    `json:"-"`                  // all, with the predictions of a series in order

	detects bool // the readout only detects: class 1 is everything except class 0
}

// NumberErrors are the errors of predicted numbers, in the unit of the numbers. Shares are 0 to 1.
type NumberErrors struct {
	Samples int     `json:"samples"`
	RMSE    float64 `json:"rmse"` // root of the mean squared error
	MAE     float64 `json:"mae"`  // mean magnitude of the error
	Bias    float64 `json:"bias"` // mean of predicted less true numbers
	// R2 is 1 less the sum of squared errors over the sum for always predicting the mean of these samples: 1 is
	// perfect, 0 as good as the mean, below worse. nil: all numbers are equal.
	R2       *float64 `json:"r2"`
	Coverage float64  `json:"coverage"` // share of the numbers in their interval
	Below    float64  `json:"below"`    // share of the numbers below their interval
	Above    float64  `json:"above"`    // share above
	Width    float64  `json:"mean_width"`
	// PHM08 is the score of the data challenge of PHM 2008: the sum of exp(d/10) - 1 if the predicted number is d too
	// large, and of exp(d/13) - 1 if it is d too small (Saxena, Goebel, Simon and Eklund, "Damage propagation modeling
	// for aircraft engine run-to-failure simulation", 2008). It is for remaining life in cycles. nil: too large.
	PHM08 *float64 `json:"phm08"`
}

// AnswerCount counts the labeled predictions without outcome.FlagAbstain, called answers.
type AnswerCount struct {
	Samples  int      `json:"samples"`
	Answered int      `json:"answered"`
	Wrong    int      `json:"wrong"`           // of Answered
	Error    *float64 `json:"error"`           // Wrong / Answered; nil: no answers
	All      float64  `json:"error_of_all"`    // the share of wrong classes without abstention
	Bound    float64  `json:"bound,omitempty"` // upper bound of the error, at the rule's confidence; 0: not known
}

// EarlyCount counts early predictions.
type EarlyCount struct {
	Predictions int     `json:"predictions"`
	Labeled     int     `json:"labeled"`
	Correct     int     `json:"correct"`
	Accuracy    float64 `json:"accuracy"` // Correct / Labeled, 0 if Labeled is 0

	Decided *EarlyReport `json:"decided,omitempty"` // nil if the readout has no rule for sufficient prefixes
}

// index maps classes to the readout's classes.
func (ev *Evaluation) index(classes []string) []int {
	class := make([]int, len(classes))
	for i, name := range classes {
		if class[i] = names.ClassIndex(ev.Classes, name); class[i] < 0 {
			class[i] = len(ev.Classes) // allowed by matchModel if there is a detector
			if ev.detects {
				class[i] = 1
			}
		}
	}
	return class
}

// measure fills in the figures of the predictions. mixed and sites are by prediction: a flag for samples with several
// labels, and the site of the stream.
func (ev *Evaluation) measure(linear *readout.Linear, pl *plan, mixed []bool, sites []int) (err error) {
	ev.count()
	ev.Novelty = ev.novelty(linear)
	if ev.Early != nil {
		ev.Early.Decided = ev.decided(linear)
	}
	if linear.Interval != nil {
		ev.Numbers, ev.Last = ev.numbers(linear.Interval)
		return nil
	}
	if ev.Quality, ev.Sets, err = ev.quality(linear); err != nil {
		return err
	}
	ev.Answers = ev.answers(linear)
	for k := range mixed {
		if mixed[k] && ev.Counts(&ev.Predictions[k]) {
			ev.Mixed++
		}
	}
	ev.ByGroup = ev.byGroup(pl, sites)
	return nil
}

// Counts reports whether a prediction is one of Sequences.
func (ev *Evaluation) Counts(p *Prediction) bool {
	return ev.Policy.Whole(p.Early())
}

// countFlags counts the flags of predictions unlike the training.
func (ev *Evaluation) countFlags(p *Prediction) {
	for _, f := range []outcome.Flag{outcome.FlagOutOfRange, outcome.FlagFlat, outcome.FlagLength, outcome.FlagRate} {
		if p.Flags&f != 0 {
			if ev.Flagged == nil {
				ev.Flagged = map[string]int{}
			}
			ev.Flagged[f.String()]++
		}
	}
}

// count fills in all figures that follow from the predictions.
func (ev *Evaluation) count() {
	if !ev.numeric() {
		ev.Confusion = make([][]int, len(ev.Classes))
	}
	for i := range ev.Confusion {
		ev.Confusion[i] = make([]int, len(ev.Classes))
	}
	for i := range ev.Predictions {
		p := &ev.Predictions[i]
		ev.countFlags(p)
		if !ev.Counts(p) {
			ev.countEarly(p)
			continue
		}
		ev.Sequences++
		if p.Label < 0 {
			continue
		}
		ev.Labeled++
		if ev.numeric() {
			continue
		}
		ev.Confusion[p.Label][p.Class]++
		if p.Label == int(p.Class) {
			ev.Correct++
		}
	}
	if e := ev.Early; e != nil && e.Labeled > 0 {
		e.Accuracy = float64(e.Correct) / float64(e.Labeled)
	}
	if ev.Labeled == 0 || ev.numeric() {
		return
	}
	ev.Accuracy = float64(ev.Correct) / float64(ev.Labeled)
	present := 0
	for i, row := range ev.Confusion {
		total := 0
		for _, n := range row {
			total += n
		}
		if total > 0 {
			present++
			ev.Balanced += float64(row[i]) / float64(total)
		}
	}
	ev.Balanced /= float64(present)
}

// quality measures the counted predictions.
func (ev *Evaluation) quality(linear *readout.Linear) (*quality.Report, *quality.Sets, error) {
	if ev.Labeled == 0 {
		return nil, nil, nil
	}
	var labels []int
	var sets [][]int32
	var scores []float64
	for _, p := range ev.labeled() {
		labels, sets = append(labels, p.Label), append(sets, p.Set)
		if len(p.Scores) == 1 { // of two classes
			scores = append(scores, 0)
		}
		for _, s := range p.Scores {
			scores = append(scores, float64(s))
		}
	}
	q, err := quality.New(ev.Classes, labels, scores, linear.Temperature)
	if err != nil || linear.Coverage == nil {
		return q, nil, err
	}
	s, err := quality.OfSets(ev.Classes, labels, func(i int) []int32 { return sets[i] })
	return q, s, err
}

// numbers measures the predicted numbers, and the last of each series or stream; nil if no number is known.
func (ev *Evaluation) numbers(v *readout.Interval) (all, last *NumberErrors) {
	of := ev.labeled()
	if len(of) == 0 {
		return nil, nil
	}
	at, ends := map[string]int{}, []*Prediction(nil)
	for _, p := range of {
		i, seen := at[p.ID]
		if !seen {
			i = len(ends)
			at[p.ID], ends = i, append(ends, p)
		}
		ends[i] = p // predictions of a stream are in order
	}
	if len(ends) < len(of) {
		last = numberErrors(ends, v)
	}
	return numberErrors(of, v), last
}

func numberErrors(of []*Prediction, v *readout.Interval) *NumberErrors {
	return (*NumberErrors)(quality.OfNumbers(len(of), func(i int) (number, value, low, high float64) {
		n := &of[i].Number
		return v.Learned(of[i].Truth), float64(n.Value), float64(n.Low), float64(n.High)
	}))
}

// answers counts the answers among the counted predictions.
func (ev *Evaluation) answers(linear *readout.Linear) *AnswerCount {
	if ev.Labeled == 0 || linear.Abstain == nil {
		return nil
	}
	of := ev.labeled()
	return (*AnswerCount)(abstain.Of(len(of), func(i int) bool { return of[i].Flags&outcome.FlagAbstain == 0 }, func(i int) bool { return int(of[i].Class) == of[i].Label }))
}

// labeled returns the counted predictions with a known class.
func (ev *Evaluation) labeled() (of []*Prediction) {
	for i := range ev.Predictions {
		if p := &ev.Predictions[i]; ev.Counts(p) && p.Label >= 0 {
			of = append(of, p)
		}
	}
	return of
}

func (ev *Evaluation) countEarly(p *Prediction) {
	if ev.Early == nil {
		ev.Early = new(EarlyCount)
	}
	ev.Early.Predictions++
	if p.Label >= 0 {
		ev.Early.Labeled++
		if p.Label == int(p.Class) && !ev.numeric() {
			ev.Early.Correct++
		}
	}
}

// numeric reports whether the readout is a regression.
func (ev *Evaluation) numeric() bool { return len(ev.Classes) == 1 }

// byGroup counts the predictions of each group; nil if not requested.
func (ev *Evaluation) byGroup(pl *plan, sites []int) *groups.Report {
	if pl.sites == nil {
		return nil
	}
	all, across := make([]groups.Result, len(pl.sites.Names)), 0
	for i := range ev.Predictions {
		p := &ev.Predictions[i]
		if !ev.Counts(p) || p.Label < 0 {
			continue
		}
		if sites[i] == groups.None {
			across++
			continue
		}
		all[sites[i]].Sequences++
		if p.Label == int(p.Class) {
			all[sites[i]].Correct++
		}
	}
	for i, name := range pl.sites.Names {
		all[i].Group = name
	}
	all = slices.DeleteFunc(all, func(g groups.Result) bool { return g.Sequences == 0 })
	r := groups.NewReport(pl.sites.Rule, all)
	r.Across = across
	return r
}

// EarlyReport is the result of taking the first decided prediction of each sequence, or otherwise the prediction at
// its end. Shares and accuracies are 0 to 1.
type EarlyReport struct {
	Loss      float64 `json:"loss,omitzero"`     // of a training: the allowed loss of accuracy
	Sequences int     `json:"sequences"`         // with a known class; of a training: with prefixes, by leave-one-out
	Prefixes  int     `json:"prefixes,omitzero"` // of a training: of the sequences
	Whole     float64 `json:"whole,omitzero"`    // of a training: accuracy of the whole sequences
	Accuracy  float64 `json:"accuracy"`          // of the first decided prefix, or of the whole sequence
	Earliness float64 `json:"earliness"`         // mean share of a sequence's samples at which it is decided
	Decided   float64 `json:"decided"`           // share of the sequences decided before their end
}

// decided returns the report of early decisions; nil if the readout has no rule, or nothing is labeled.
func (ev *Evaluation) decided(linear *readout.Linear) *EarlyReport {
	if linear.Prefixes == nil {
		return nil
	}
	r := new(EarlyReport)
	first := map[string]*Prediction{} // of each stream's open sequence, the first decided prediction
	for i := range ev.Predictions {
		p := &ev.Predictions[i]
		if p.Early() {
			if p.Flags&outcome.FlagDecided != 0 && first[p.ID] == nil {
				first[p.ID] = p
			}
			continue
		}
		at := first[p.ID]
		delete(first, p.ID)
		if p.Label < 0 {
			continue
		}
		if at == nil {
			at = p
		} else {
			r.Decided++
		}
		if r.Sequences++; int(at.Class) == p.Label {
			r.Accuracy++
		}
		r.Earliness += float64(at.Samples) / float64(p.Samples)
	}
	if r.Sequences == 0 {
		return nil
	}
	n := float64(r.Sequences)
	r.Accuracy, r.Earliness, r.Decided = r.Accuracy/n, r.Earliness/n, r.Decided/n
	return r
}
