package offline

import (
	"context"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/exact"
	"github.com/eusn-stream/eusn-stream/internal/fit"
	"github.com/eusn-stream/eusn-stream/internal/offline/bridge"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// Sets are in the model, and an evaluation's sets follow from its scores; without sets the model is unchanged.
func TestRetrainWithCoverage(t *testing.T) {
	d := tones(60, 30)
	plain, _ := retrained(t, d, RetrainOptions{Spec: smallBank(2)})
	m, r := retrained(t, d, RetrainOptions{Spec: smallBank(2), Coverage: .8, CoverageByClass: true})
	c := m.Readouts[0].Coverage
	if c == nil || c.Level != .8 || !c.ByClass || len(c.Least) != 3 || r.Readout.Sets == nil || r.Readout.Sets.Coverage < .8 {
		t.Fatalf("coverage %+v, report %+v", c, r.Readout.Sets)
	}
	ev := evaluated(t, m, d, EvaluateOptions{})
	held := 0
	for _, p := range ev.Predictions {
		if p.Set == nil || !slices.Equal(p.Set, m.Readouts[0].AppendSet(nil, p.Scores)) {
			t.Fatalf("%+v: another set than that of its scores", p)
		}
		if slices.Contains(p.Set, int32(p.Label)) {
			held++
		}
	}
	if s := ev.Sets; s == nil || s.Samples != 30 || s.Coverage != float64(held)/30 || s.Empty+s.Single+s.Several != 30 {
		t.Errorf("%d of 30 held, evaluated as %+v", held, ev.Sets)
	}
	m.Readouts[0].Coverage = nil
	if !reflect.DeepEqual(m, plain) {
		t.Error("coverage changes more than the thresholds")
	}
	if before := evaluated(t, plain, d, EvaluateOptions{}); before.Sets != nil || before.Predictions[0].Set != nil {
		t.Errorf("sets of a model without: %+v", before.Sets)
	}
}

func TestRetrainWithPriors(t *testing.T) {
	d := tones(60, 30)
	plain, _ := retrained(t, d, RetrainOptions{Spec: smallBank(2)})
	m, _ := retrained(t, d, RetrainOptions{Spec: smallBank(2), Priors: PerClass{Of: map[string]float64{d.Classes[0]: 1e6, d.Classes[1]: 1, d.Classes[2]: 1}}})
	if !strings.Contains(m.Training.Alpha, "before the priors") || m.Readouts[0].Intercept[0] <= plain.Readouts[0].Intercept[0] {
		t.Errorf("%q, intercepts %v and %v", m.Training.Alpha, m.Readouts[0].Intercept, plain.Readouts[0].Intercept)
	}
	for want, p := range map[string]PerClass{
		`priors without class "` + d.Classes[2]: {Of: map[string]float64{d.Classes[0]: 1, d.Classes[1]: 1}},
		`priors with class "hum"`:               {Of: map[string]float64{d.Classes[0]: 1, d.Classes[1]: 1, d.Classes[2]: 1, "hum": 1}},
	} {
		if _, _, err := Retrain(context.Background(), d, RetrainOptions{Spec: smallBank(2), Priors: p}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	for _, o := range []RetrainOptions{{Coverage: .9}, {Priors: PerClass{Balanced: true}}, {Weights: PerClass{Balanced: true}}} {
		o.Spec = smallBank(2)
		if _, err := RetrainShard(context.Background(), d, o, Shard{1, 2}, filepath.Join(t.TempDir(), "s"), nil); err == nil || !strings.Contains(err.Error(), "train in one job") {
			t.Errorf("a shard: %v", err)
		}
	}
}

// Balanced weights are one over the number of sequences of each class, and reach the readout; wrong weights are
// refused before any computation.
func TestRetrainWithClassWeights(t *testing.T) {
	d := tones(60, 30)
	for i := range d.Series { // fewer of the first class
		if i%2 == 0 && d.Series[i].Split == archive.Train && d.Series[i].Label == 0 {
			d.Series[i].Label = 1
		}
	}
	plain, p := retrained(t, d, RetrainOptions{Spec: smallBank(2)})
	m, r := retrained(t, d, RetrainOptions{Spec: smallBank(2), Weights: PerClass{Balanced: true}})
	for k, n := range r.Readout.PerClass {
		if got, want := r.Readout.Weights[k], float64(r.Sequences)/float64(3*n); math.Abs(got-want) > 1e-12*want {
			t.Errorf("class %d of %d sequences has weight %v, want %v", k, n, got, want)
		}
	}
	if p.Readout.Weights != nil || slices.Equal(m.Readouts[0].Weights, plain.Readouts[0].Weights) || !strings.Contains(m.Training.Alpha, "with class weights") {
		t.Errorf("%q, without weights %q", m.Training.Alpha, plain.Training.Alpha)
	}
	of := map[string]float64{d.Classes[0]: 1 / float64(r.Readout.PerClass[0]), d.Classes[1]: 1 / float64(r.Readout.PerClass[1]), d.Classes[2]: 1 / float64(r.Readout.PerClass[2])}
	if same, _ := retrained(t, d, RetrainOptions{Spec: smallBank(2), Weights: PerClass{Of: of}}); !reflect.DeepEqual(same, m) {
		t.Error("the same weights by name make another model")
	}
	if _, _, err := update(context.Background(), m, bridge.Sequences{Name: "k", Sums: new(exact.Sums)}, RetrainOptions{Weights: PerClass{Balanced: true}}, nil); err == nil || !strings.Contains(err.Error(), "sums count all sequences alike") {
		t.Errorf("weights of sums: %v", err)
	}
	delete(of, d.Classes[1])
	if _, _, err := Retrain(context.Background(), d, RetrainOptions{Spec: smallBank(2), Weights: PerClass{Of: of}}, nil); err == nil || !strings.Contains(err.Error(), "class weights without class") {
		t.Errorf("a class without a weight: %v", err)
	}
}

// Answers follow the readout's rule, and evaluate counts only answers; without the rule the model is unchanged.
func TestRetrainThatAbstains(t *testing.T) {
	d := tones(240, 60)
	for i := range d.Series { // some of the wrong class, so that it cannot be sure
		if i%12 == 0 {
			d.Series[i].Label = (d.Series[i].Label + 1) % 3
		}
	}
	plain, _ := retrained(t, d, RetrainOptions{Spec: smallBank(2)})
	m, r := retrained(t, d, RetrainOptions{Spec: smallBank(2), MaxError: .25})
	rule := m.Readouts[0].Abstain
	if rule == nil || rule.MaxError != .25 || rule.Confidence != DefaultConfidence || r.Readout.Answers == nil || r.Readout.Answers.Answered == 0 {
		t.Fatalf("rule %+v, report %+v", rule, r.Readout.Answers)
	}
	if r.Readout.Answers.Bound > .25 {
		t.Errorf("%+v: more than was asked for", r.Readout.Answers)
	}
	rule.Above = .9 // somewhere among the probabilities
	ev := evaluated(t, m, d, EvaluateOptions{})
	answered, wrong := 0, 0
	for _, p := range ev.Predictions {
		abstains := p.Flags&outcome.FlagAbstain != 0
		if abstains != m.Readouts[0].Abstains(p.Probability) {
			t.Fatalf("%+v: want it to abstain at most at %v", p, rule.Above)
		}
		if !abstains {
			if answered++; int(p.Class) != p.Label {
				wrong++
			}
		}
	}
	if a := ev.Answers; a == nil || a.Samples != 60 || a.Answered != answered || a.Wrong != wrong || answered == 0 || answered == 60 || a.Bound != 0 {
		t.Errorf("%d answered, %d of them wrong, evaluated as %+v", answered, wrong, ev.Answers)
	}
	m.Readouts[0].Abstain = nil
	if !reflect.DeepEqual(m, plain) {
		t.Error("a largest error changes more than the rule")
	}
	if before := evaluated(t, plain, d, EvaluateOptions{}); before.Answers != nil {
		t.Errorf("answers of a model that always answers: %+v", before.Answers)
	}
	if _, err := RetrainShard(context.Background(), d, RetrainOptions{Spec: smallBank(2), MaxError: .1}, Shard{1, 2}, filepath.Join(t.TempDir(), "s"), nil); err == nil || !strings.Contains(err.Error(), "train in one job") {
		t.Errorf("a shard: %v", err)
	}
}

// Adapting follows the paper's recursion on the predictions of evaluate: with labels at once, and 7 predictions late;
// the model and its own sets do not change.
func TestEvaluateAdaptive(t *testing.T) {
	d := tones(60, 90)
	test := 0
	for i := range d.Series { // a planted shift: the second half of the test part is noisier
		if d.Series[i].Split == archive.Test {
			if test++; test > 45 {
				for k := range d.Series[i].Values {
					d.Series[i].Values[k] += float32((k*7919)%13) / 8
				}
			}
		}
	}
	m, _ := retrained(t, d, RetrainOptions{Spec: smallBank(2), Coverage: .9})
	plain := evaluated(t, m, d, EvaluateOptions{})
	const rate = .1
	l := m.Readouts[0]
	for _, late := range []int{0, 7} {
		ev := evaluated(t, m, d, EvaluateOptions{})
		adapted, err := ev.adapt(m, rate, late)
		if err != nil || adapted.AdaptiveNumbers != nil || !reflect.DeepEqual(ev.Sets, plain.Sets) {
			t.Fatalf("%+v, %v", adapted, err)
		}
		share, missed, size := 1-l.Coverage.Level, []float64{}, 0
		for i := range ev.Predictions {
			if i > late {
				share += rate * (1 - l.Coverage.Level - missed[i-late-1])
			}
			set := l.AppendSetAt(nil, ev.Predictions[i].Scores, fit.ThresholdsAt(l.Coverage, share))
			size += len(set)
			missed = append(missed, 1)
			if slices.Contains(set, int32(ev.Predictions[i].Label)) {
				missed[i] = 0
			}
		}
		total := 0.0
		for _, v := range missed {
			total += v
		}
		a := adapted.Adaptive
		if math.Abs(a.Coverage-(1-total/90)) > 1e-12 || math.Abs(a.Size-float64(size)/90) > 1e-12 || a.Fixed != plain.Sets.Coverage || math.Abs(a.FixSize-plain.Sets.Size) > 1e-12 {
			t.Errorf("%d late: %+v, want coverage %v and size %v; without %+v", late, a, 1-total/90, float64(size)/90, plain.Sets)
		}
		if c := adapted.Changed.Readouts[0].Coverage; !reflect.DeepEqual(c, fit.ActingCoverage(l.Coverage, a.Share)) || c.Adapted == 0 || l.Coverage.Adapted != 0 {
			t.Errorf("%d late: the model has %+v", late, c)
		}
		if math.Abs(a.Coverage-.9) > a.Bound || math.Abs(a.Bound-(.9+float64(late+1)*rate)/(rate*90)) > 1e-12 {
			t.Errorf("%d late: %+v is out of its bound", late, a)
		}
	}
	m.Readouts[0].Coverage = nil
	if _, err := plain.adapt(m, .1, 0); err == nil || !strings.Contains(err.Error(), "a model without sets") {
		t.Errorf("a model without sets: %v", err)
	}
}

// After an update from labels, thresholds have moved in the order of the labels' arrival, whatever the order of the
// sequences, and only by kept sequences.
func TestUpdateAdapts(t *testing.T) {
	d := tones(60, 30)
	const rate = .1
	m, report, err := Retrain(context.Background(), d, RetrainOptions{EngineOptions: EngineOptions{}, Spec: smallBank(2), Coverage: .8, adaptive: rate}, nil)
	if err != nil {
		t.Fatal(err)
	}
	left := report.Readout.Left
	k := bridge.Sequences{Name: "known", Classes: m.Readouts[0].Classes}
	want := map[bool][]int{}
	var labels []int
	for i, at := range d.Part(archive.Train) {
		label := d.Series[at].Label
		k.Sequences = append(k.Sequences, bridge.Sequence{Class: label, Labeled: uint64(100 - i/2)}) // two of each label
		labels = append(labels, label)
	}
	for i := len(labels) - 2; i >= 0; i -= 2 {
		want[false] = append(want[false], i, i+1)
	}
	kept := make([]int, left.Scores.Rows)
	for i := range kept { // another numbering: the rows are the sequences backwards
		kept[i] = len(kept) - 1 - i
	}
	for row := range kept {
		want[true] = append(want[true], row^1) // the labels came so; of two the first sequence is the later row
	}
	for _, summed := range []bool{false, true} {
		linear, of := *m.Readouts[0], labels
		tr := &training{opt: RetrainOptions{adaptive: rate}, report: report}
		var rows []int
		if summed {
			rows, of = kept, slices.Clone(labels)
			slices.Reverse(of)
		}
		if err := tr.adapt(&linear, k, rows); err != nil {
			t.Fatal(err)
		}
		c, r, err := fit.AdaptCoverage(m.Readouts[0].Coverage, rate, linear.Temperature, left.Scores, of, want[summed])
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(linear.Coverage, c) || !reflect.DeepEqual(tr.report.Readout.Adaptive, r) || c.Adapted == 0 {
			t.Errorf("summed %v: %+v, %+v; want %+v, %+v", summed, linear.Coverage, tr.report.Readout.Adaptive, c, r)
		}
	}
	linear := *m.Readouts[0]
	linear.Coverage = nil
	if err := (&training{opt: RetrainOptions{adaptive: rate}, report: report}).adapt(&linear, k, nil); err == nil || !strings.Contains(err.Error(), "no coverage") {
		t.Errorf("without sets: %v", err)
	}
}
