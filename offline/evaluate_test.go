package offline

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/pqarrow"

	"github.com/eusn-stream/eusn-stream/internal/imports"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

func TestCountsByHand(t *testing.T) {
	ev := &Evaluation{Classes: []string{"a", "b", "c"}, Predictions: []Prediction{
		{Label: 0, Answer: outcome.Answer{Class: 0}}, {Label: 0, Answer: outcome.Answer{Class: 0}}, {Label: 0, Answer: outcome.Answer{Class: 0}}, {Label: 0, Answer: outcome.Answer{Class: 2}},
		{Label: 1, Answer: outcome.Answer{Class: 0}}, {Label: 1, Answer: outcome.Answer{Class: 1}}, {Label: -1, Answer: outcome.Answer{Class: 2}},
	}}
	ev.count()
	if want := [][]int{{3, 0, 1}, {1, 1, 0}, {0, 0, 0}}; !reflect.DeepEqual(ev.Confusion, want) {
		t.Errorf("confusion %v, want %v", ev.Confusion, want)
	}
	// Class c has no series, so it does not count in the balanced accuracy.
	if ev.Labeled != 6 || ev.Correct != 4 || ev.Accuracy != 4./6 || ev.Balanced != (3./4+1./2)/2 {
		t.Errorf("labeled %d, correct %d, accuracy %g, balanced %g", ev.Labeled, ev.Correct, ev.Accuracy, ev.Balanced)
	}
}

// Labels are matched by name: a data set with only some of the classes numbers its classes differently.
func TestEvaluateMatchesClassesByName(t *testing.T) {
	d := tones(60, 30)
	m, _ := retrained(t, d, RetrainOptions{Spec: smallBank(2)})
	all := evaluated(t, m, d, EvaluateOptions{})
	part := *d
	part.Classes, part.Series = []string{"low", "mid"}, nil
	for _, s := range d.Series {
		if s.Label > 0 {
			s.Label--
			part.Series = append(part.Series, s)
		}
	}
	ev := evaluated(t, m, &part, EvaluateOptions{})
	for _, row := range []int{1, 2} {
		if !reflect.DeepEqual(ev.Confusion[row], all.Confusion[row]) {
			t.Errorf("class %d: %v, want %v", row, ev.Confusion[row], all.Confusion[row])
		}
	}
	if ev.Series != 20 || !reflect.DeepEqual(ev.Classes, all.Classes) {
		t.Errorf("%d series, classes %v", ev.Series, ev.Classes)
	}
}

func TestEvaluateRefuses(t *testing.T) {
	m, _ := retrained(t, tones(30, 0), RetrainOptions{Spec: smallBank(2)})
	for what, spoil := range map[string]func(*archive.Dataset, *EvaluateOptions){
		"reads 2 channels, data set \"tones\" has 1": func(d *archive.Dataset, _ *EvaluateOptions) { d.Channels = d.Channels[:1] },
		"same names in the same order":               func(d *archive.Dataset, _ *EvaluateOptions) { d.Channels = []string{"b", "a"} },
		`class "hum"`:                                func(d *archive.Dataset, _ *EvaluateOptions) { d.Classes[1] = "hum" },
		"no test part":                               func(d *archive.Dataset, _ *EvaluateOptions) { setSplit(d, archive.Train) },
		`no readout "spare", it has ["default"]`:     func(_ *archive.Dataset, o *EvaluateOptions) { o.Readout = "spare" },
		"token lists": func(d *archive.Dataset, _ *EvaluateOptions) {
			d.Channels = nil
			for i := range d.Series {
				d.Series[i].Values, d.Series[i].Tokens = nil, []int32{1, 2}
			}
		},
	} {
		d, opt := tones(3, 6), EvaluateOptions{}
		spoil(d, &opt)
		ev, err := Evaluate(context.Background(), m, d, opt, nil)
		if err == nil || ev != nil || !strings.Contains(err.Error(), what) {
			t.Errorf("got %v, want an error saying %q", err, what)
		}
	}
	m.Readouts = nil
	if _, err := Evaluate(context.Background(), m, tones(3, 6), EvaluateOptions{}, nil); err == nil || !strings.Contains(err.Error(), "no readout") {
		t.Errorf("headless model: %v", err)
	}
}

// predictionRows reads a file of predictions in the way of another tool.
func predictionRows(t *testing.T, path string) arrow.Record {
	t.Helper()
	rd, err := file.OpenParquetFile(path, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rd.Close() })
	ar, err := pqarrow.NewFileReader(rd, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	table, err := ar.ReadTable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(table.Release)
	rows := array.NewTableReader(table, -1)
	t.Cleanup(rows.Release)
	if !rows.Next() {
		t.Fatal("the file has no rows")
	}
	return rows.Record()
}

func TestWritePredictions(t *testing.T) {
	d := tones(60, 6)
	d.Series[61].Label = -1
	m, _ := retrained(t, d, RetrainOptions{Spec: smallBank(2)})
	ev := evaluated(t, m, d, EvaluateOptions{})
	path := t.TempDir() + "/p.parquet"
	if err := ev.WritePredictions(path); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rd, err := file.NewParquetReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if got := rd.MetaData().KeyValueMetadata().FindValue("eusn.model"); got == nil || *got != fingerprint(t, m) {
		t.Error("the file does not name the model")
	}
	rec := predictionRows(t, path)
	if rec.NumRows() != 6 {
		t.Fatalf("%d rows, want 6", rec.NumRows())
	}
	ids, samples, labels := rec.Column(0).(*array.String), rec.Column(1).(*array.Int32), rec.Column(2).(*array.String)
	predicted, scores := rec.Column(3).(*array.String), rec.Column(4).(*array.List)
	values := scores.ListValues().(*array.Float32)
	flags, probabilities := rec.Column(6).(*array.Uint32), rec.Column(7).(*array.Float32)
	for k, p := range ev.Predictions {
		if got := probabilities.Value(k); got != p.Probability || !(got > 0) || outcome.Flag(flags.Value(k)) != p.Flags {
			t.Errorf("row %d: probability %v, flags %d, want %v and %d", k, got, flags.Value(k), p.Probability, p.Flags)
		}
		if ids.Value(k) != p.ID || int(samples.Value(k)) != p.Samples || predicted.Value(k) != ev.Classes[p.Class] {
			t.Errorf("row %d: %s, %d, %s", k, ids.Value(k), samples.Value(k), predicted.Value(k))
		}
		if labels.IsNull(k) != (k == 1) || k != 1 && labels.Value(k) != ev.Classes[p.Label] {
			t.Errorf("row %d: label %q", k, labels.Value(k))
		}
		from, to := scores.ValueOffsets(k)
		if to-from != 3 {
			t.Fatalf("row %d: %d scores", k, to-from)
		}
		for c, s := range p.Scores {
			if math.Float32bits(values.Value(int(from)+c)) != math.Float32bits(s) {
				t.Errorf("row %d: score %d is %g, want %g", k, c, values.Value(int(from)+c), s)
			}
		}
	}
	if err := ev.WritePredictions(t.TempDir() + "/none/p.parquet"); err == nil {
		t.Error("no such directory: no error")
	}
}

// benchmark imports a public data set from next to the checkout.
func benchmark(t *testing.T, name string) *archive.Dataset {
	t.Helper()
	if testing.Short() {
		t.Skip("NOT CHECKED: -short, and " + name + " takes seconds to minutes")
	}
	d, err := imports.Import(context.Background(), imports.Options{Dir: filepath.Join(requireDatasets(t), name)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// The default bank on real data, nothing chosen on the test part. The bounds are below every one of ten seeds
// (docs/results.md): Adiac gave .801 to .839, and below .79 the linear discriminant is missing. All but Adiac
// together take minutes: EUSN_ACCURACY=all runs all.
func TestDefaultBankAccuracy(t *testing.T) {
	for name, least := range map[string]float64{
		"Adiac": .79, "ShapesAll": .87, "ECG5000": .935, "CharacterTrajectories": .985, "SpokenArabicDigits": .98,
	} {
		t.Run(name, func(t *testing.T) {
			if name != "Adiac" && !parts.Accuracy(name) {
				t.Skip("NOT CHECKED: can take minutes, EUSN_ACCURACY=all asks for it")
			}
			d := benchmark(t, name)
			m, r := retrained(t, d, RetrainOptions{})
			ev := evaluated(t, m, d, EvaluateOptions{})
			t.Logf("accuracy %.4f, balanced %.4f, alpha %s, states %.0f s, readout %.0f s",
				ev.Accuracy, ev.Balanced, m.Training.Alpha, r.StateSeconds, r.FitSeconds)
			if ev.Accuracy < least {
				t.Errorf("accuracy %.4f, want at least %g", ev.Accuracy, least)
			}
		})
	}
}

// The paper's network for Adiac as selected by its search (entry 197: 200 units), fitted on the whole training part.
// Independent programs gave .470; .03 is about three deviations between weight draws.
func TestPaperNetworkOnAdiac(t *testing.T) {
	d := benchmark(t, "Adiac")
	spec := reservoir.Paper(1, reservoir.PaperOptions{Units: 200, Gamma: 0.1, Eps: 1, Input: 10, Recurrent: 0.01, Bias: 0.01, Seed: 1})
	m, _ := retrained(t, d, RetrainOptions{Spec: spec, Alphas: []float64{1}, RawFeatures: true})
	ev := evaluated(t, m, d, EvaluateOptions{})
	t.Logf("accuracy %.4f", ev.Accuracy)
	if math.Abs(ev.Accuracy-0.470) > 0.03 {
		t.Errorf("accuracy %.4f, want .470 within .03", ev.Accuracy)
	}
}

// The quality of an evaluation covers the counted predictions: early predictions are not counted.
func TestEvaluationQuality(t *testing.T) {
	for _, classes := range []int{2, 3} {
		d := tones(60, 30)
		d.Series = slices.DeleteFunc(d.Series, func(s archive.Series) bool { return s.Label >= classes })
		d.Classes = d.Classes[:classes]
		m, _ := retrained(t, d, RetrainOptions{Spec: smallBank(2), Policy: reservoir.Policy{Kind: reservoir.Marked, Early: 8}})
		ev := evaluated(t, m, d, EvaluateOptions{})
		q := ev.Quality
		if ev.Early == nil || q == nil || q.Samples != ev.Labeled || math.Abs(q.Balanced-ev.Balanced) > 1e-12 || len(q.Classes) != classes || q.AUROC == nil { // rounding of a sum
			t.Fatalf("%d classes: %+v, of %d labeled, balanced accuracy %g", classes, q, ev.Labeled, ev.Balanced)
		}
		loss := 0.0
		for i := range ev.Predictions {
			p := &ev.Predictions[i]
			switch {
			case p.Early():
			case p.Label == int(p.Class):
				loss -= math.Log(float64(p.Probability))
			default: // of two classes
				loss -= math.Log(1 - float64(p.Probability))
			}
		}
		for k, c := range q.Classes {
			if c.Right != ev.Confusion[k][k] || c.Class != ev.Classes[k] {
				t.Errorf("class %d: %+v, confusion %v", k, c, ev.Confusion)
			}
		}
		// 1e-5: probabilities are float32, and probabilities of wrong predictions are subtracted from 1.
		if classes == 2 && math.Abs(loss/float64(ev.Labeled)-*q.LogLoss) > 1e-5 {
			t.Errorf("%d classes: log-loss %g, of the published probabilities %g", classes, *q.LogLoss, loss/float64(ev.Labeled))
		}
		t.Logf("%d classes: %d of %d right, log-loss %g", classes, ev.Correct, ev.Labeled, *q.LogLoss)
	}
}
