package offline

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/exact"
	"github.com/eusn-stream/eusn-stream/internal/fit"
	"github.com/eusn-stream/eusn-stream/internal/track"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// LabeledSequences are sequences with known features.
type LabeledSequences struct {
	Name        string // the name of their source
	Fingerprint string // the identity of their data
	Streams     int
	Classes     []string // ascending, as in a recording
	Sequences   []LabeledSequence
	Features    func(i int, row []float32) error // of a sequence

	// Sums are the sums of all sequences, by their classes, if the features of most are gone. Then only the features
	// of Kept are needed: sequences, ascending, that choose the regularisation. nil: all features are present.
	Sums *exact.Sums
	Kept []int
}

// LabeledSequence is a sequence with its label. Sequences of one group have one origin: one labelled part of a
// stream, or each by itself under the policies marked and gap. Sequences of a group are neighbours in the list.
type LabeledSequence struct {
	Class, Group int
	Samples      int64 // as they came in
	Rows         int   // after the front end

	// Labelled numbers the label of the class, in the order of the labels' arrival; sequences of one label are in the
	// order of the list. It is for an adaptive coverage.
	Labelled uint64
}

// knownBlock is how many features are handed on at a time.
const knownBlock = 8 << 20

// Update gives a model another readout, trained on known features: the readout of RetrainFiles on a recording with
// these sequences in this order and the same network. From opt, it reads the settings of the readout, the memory and
// Tool. The model's network, policy, front end and input ranges are not changed.
//
// From sums and the same kept sequences the readout is the same, except for the rounding of float64 sums. There must
// be more sequences than features then.
func Update(ctx context.Context, m *reservoir.Model, k LabeledSequences, opt RetrainOptions, progress archive.Progress) (*reservoir.Model, RetrainReport, error) {
	if k.Sums != nil {
		return updateFromSums(ctx, m, k, opt, progress)
	}
	fail := func(err error) (*reservoir.Model, RetrainReport, error) { return nil, RetrainReport{}, err }
	opt.Spec, opt.Policy = m.Network.Spec, m.Policy
	opt = opt.withDefaults(len(m.Channels))
	t, err := newUpdate(m, k, opt)
	if err != nil {
		return fail(err)
	}
	l, err := t.learner(0, len(k.Sequences))
	if err != nil {
		return fail(err)
	}
	defer l.Close()
	if opt.Planned != nil {
		opt.Planned(t.report)
	}
	cast := newForecast(progress, l.Plan(), int64(l.Plan().Passes*len(k.Sequences)), len(k.Sequences))
	if l.Plan().Passes > 1 {
		if err := k.each(ctx, opt.Spec.FeatureCount(), cast, l.Measure); err != nil {
			return fail(err)
		}
		cast.passed()
	}
	if err := k.each(ctx, opt.Spec.FeatureCount(), cast, l.Add); err != nil {
		return fail(err)
	}
	next, err := t.finish(ctx, l, cast)
	if err != nil {
		return fail(err)
	}
	if err := t.adapt(next.Readouts[0], k, nil); err != nil {
		return fail(err)
	}
	return next, t.report, nil
}

// adapt lets labels move the thresholds of sets. kept are the left-out sequences, if these differ from the report's.
func (t *training) adapt(linear *readout.Linear, k LabeledSequences, kept []int) error {
	left := t.report.Readout.Left
	if t.opt.Adaptive == 0 {
		return nil
	}
	if linear.Coverage == nil {
		return fmt.Errorf("offline: %s: an adaptive coverage, and no coverage: want both", k.Name)
	}
	if kept == nil {
		kept = left.Samples
	}
	labels, order, of := make([]int, left.Scores.Rows), make([]int, left.Scores.Rows), func(row int) int { return row }
	if kept != nil {
		of = func(row int) int { return kept[row] }
	}
	for row := range labels {
		labels[row], order[row] = k.Sequences[of(row)].Class, row
	}
	slices.SortFunc(order, func(x, y int) int {
		return cmp.Or(cmp.Compare(k.Sequences[of(x)].Labelled, k.Sequences[of(y)].Labelled), cmp.Compare(of(x), of(y)))
	})
	c, r, err := fit.AdaptCoverage(linear.Coverage, t.opt.Adaptive, linear.Temperature, left.Scores, labels, order)
	if err != nil {
		return fmt.Errorf("offline: %s: %w", k.Name, err)
	}
	linear.Coverage, t.report.Readout.Adaptive = c, r
	return nil
}

// each hands on all features, some sequences at a time.
func (k LabeledSequences) each(ctx context.Context, features int, cast *forecast, take func([]float32) error) error {
	some := max(1, min(collectBlock, knownBlock/features))
	block := make([]float32, 0, min(some, len(k.Sequences))*features)
	for i := range k.Sequences {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		block = block[:len(block)+features]
		if err := k.Features(i, block[len(block)-features:]); err != nil {
			return err
		}
		if i+1 < len(k.Sequences) && len(block) < some*features {
			continue
		}
		if err := take(block); err != nil {
			return fmt.Errorf("offline: %s: %w", k.Name, err)
		}
		block = block[:0]
		cast.ran(int64(i + 1))
	}
	return nil
}

// Without returns the other sequences, with their classes. some is ascending.
func (k LabeledSequences) Without(some []int) LabeledSequences {
	rest := k
	rest.Sequences = nil
	var from []int
	for i, s := range k.Sequences {
		if _, out := slices.BinarySearch(some, i); !out {
			rest.Sequences, from = append(rest.Sequences, s), append(from, i)
		}
	}
	rest.Classes = nil
	number := make([]int, len(k.Classes))
	for c, name := range k.Classes {
		if slices.ContainsFunc(rest.Sequences, func(s LabeledSequence) bool { return s.Class == c }) {
			number[c], rest.Classes = len(rest.Classes), append(rest.Classes, name)
		}
	}
	for i := range rest.Sequences {
		rest.Sequences[i].Class = number[rest.Sequences[i].Class]
	}
	rest.Features = func(i int, row []float32) error { return k.Features(from[i], row) }
	return rest
}

// Test counts the sequences among some whose class is the model's answer for the whole sequence.
func (k LabeledSequences) Test(m *reservoir.Model, some []int) (correct int, err error) {
	r := m.Readouts[0]
	row, scores := make([]float32, r.Features()), make([]float32, r.Columns())
	for _, i := range some {
		if err := k.Features(i, row); err != nil {
			return 0, err
		}
		r.AnswerScores(scores, row)
		if r.Classes[r.Class(scores)] == k.Classes[k.Sequences[i].Class] {
			correct++
		}
	}
	return correct, nil
}

// newUpdate is a training with a given network and known examples.
func newUpdate(m *reservoir.Model, k LabeledSequences, opt RetrainOptions) (*training, error) {
	for _, h := range m.Readouts {
		if h.Interval != nil {
			return nil, fmt.Errorf("offline: %s: the model predicts numbers (%s), and labels are classes: train again with train --target", k.Name, h.Classes[0])
		}
	}
	if len(k.Sequences) == 0 {
		return nil, fmt.Errorf("offline: %s: no sequence to learn from", k.Name)
	}
	if len(k.Classes) == 0 {
		return nil, fmt.Errorf("offline: %s: no class to learn", k.Name)
	}
	src := labelledData{
		what: k.Name, name: k.Name, channels: m.Channels, classes: k.Classes,
		fingerprint: func() string { return k.Fingerprint },
	}
	if err := checkTraining(src, opt); err != nil {
		return nil, err
	}
	pl := &plan{cutter: &cutter{Tracker: track.NewTracker(track.Rules{Policy: m.Policy, Channels: len(m.Channels)}), points: len(k.Sequences), counts: counts{streams: k.Streams}}}
	for i, s := range k.Sequences {
		if i > 0 && s.Group < k.Sequences[i-1].Group {
			return nil, fmt.Errorf("offline: %s: sequence %d is of group %d, behind one of group %d: want groups in order", k.Name, i, s.Group, k.Sequences[i-1].Group)
		}
		if pl.shortest == 0 || s.Samples < pl.shortest {
			pl.shortest = s.Samples
		}
		pl.farthest = max(pl.farthest, s.Samples)
		pl.counts.samples += s.Samples
		pl.examples = append(pl.examples, example{arrival: i, point: i, label: s.Class, group: s.Group, length: s.Rows})
	}
	t := &training{src: src, opt: opt, plan: pl, net: m.Network, front: m.Front, inputs: slices.Clone(m.Training.Inputs), report: pl.report(k.Name)}
	if opt.Spec.Kind == reservoir.Mixed {
		t.report.MedianLength = pl.medianLength()
	}
	t.examples = pl.trainingOrder(k.Classes, false)
	t.report.Groups, t.report.Divided = t.examples.count, t.examples.divided
	t.report.Sampling = Sampling{m.Training.Rate, m.Training.LongestInterval}
	return t, nil
}
