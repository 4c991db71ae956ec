package offline

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/parquet"

	"github.com/eusn-stream/eusn-stream/internal/machine"
	"github.com/eusn-stream/eusn-stream/internal/offline/bridge"
	"github.com/eusn-stream/eusn-stream/internal/testing/archivetest"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// shaken is the simulated machine with a number for each series: how strongly it shakes,
// the logarithm of the mean square of all axes. Every tenth of the training is not known.
func shaken(t *testing.T, train, test int) *archive.Dataset {
	t.Helper()
	o := machine.Options{Seed: 5, Train: train, Test: test, Samples: 256}
	d, err := machine.Simulate(context.Background(), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	d.Target, d.Classes = "shaking", []string{"shaking"}
	for k, split := range []archive.Split{archive.Train, archive.Test} {
		for n, i := range d.Part(split) {
			squares := 0.
			for _, v := range d.Series[i].Values {
				squares += float64(v) * float64(v) / float64(len(d.Series[i].Values))
			}
			if d.Series[i].SetNumber(math.Log(squares)); k == 0 && n%10 == 9 {
				d.Series[i].SetNumber(math.NaN())
			}
		}
	}
	return d
}

// Intervals follow the numbers by the recursion, at once and late; the adapted model has the last interval, and no
// other change.
func TestEvaluateAdaptiveNumbers(t *testing.T) {
	d := shaken(t, 240, 120)
	m, _ := retrained(t, d, RetrainOptions{Spec: smallBank(3), Target: "shaking", Coverage: .8})
	later := *d
	later.Series = slices.Clone(d.Series)
	for k, i := range d.Part(archive.Test) { // a sensor that reads too low from the 61st on
		if n := d.Series[i].Number; k >= 60 {
			later.Series[i].SetNumber(n + 1)
		}
	}
	const rate = .2
	v := *m.Readouts[0].Interval
	for _, late := range []int{0, 5} {
		ev := evaluated(t, m, &later, EvaluateOptions{})
		adapted, err := ev.adapt(m, rate, late)
		if err != nil {
			t.Fatal(err)
		}
		a := adapted.AdaptiveNumbers
		if a == nil || adapted.Adaptive != nil || a.Samples != 120 || math.Abs(a.Fixed-ev.Numbers.Coverage) > 1.5/120 { // one number may be on the edge of a float32
			t.Fatalf("%+v beside %+v", a, ev.Numbers)
		}
		low, high, half, b := float64(v.Low), float64(v.High), float64(v.High-v.Low)/2, (1-v.Level)/2
		var moves [][2]float64
		for _, p := range ev.Predictions {
			x, move := p.Truth-float64(p.Number.Value), [2]float64{b, -b}
			if n := len(moves); n > late {
				low, high = low+rate*half*moves[n-late-1][0], high+rate*half*moves[n-late-1][1]
			}
			if x < low {
				move[0]--
			}
			if x > high {
				move[1]++
			}
			moves = append(moves, move)
		}
		for _, move := range moves[len(moves)-late-1:] {
			low, high = low+rate*half*move[0], high+rate*half*move[1]
		}
		if math.Abs(a.Low-low) > 1e-6 || math.Abs(a.High-high) > 1e-6 { // half is a float32 here
			t.Errorf("%d late: %+v, want %v and %v", late, a, low, high)
		}
		if off := max(math.Abs(a.Below-b), math.Abs(a.Above-b)); off > a.Bound || a.Coverage <= a.Fixed {
			t.Errorf("%d late: %+v", late, a)
		}
		next := adapted.Changed
		w := next.Readouts[0].Interval
		if *m.Readouts[0].Interval != v || w.Level != v.Level || math.Abs(float64(w.Low)-low) > 1e-6 || math.Abs(float64(w.High)-high) > 1e-6 {
			t.Errorf("the model has %+v of %+v", w, v)
		}
		for i, p := range evaluated(t, next, &later, EvaluateOptions{}).Predictions {
			if was := ev.Predictions[i]; p.Number.Value != was.Number.Value || p.Number.Low != was.Number.Value+w.Low || p.Number.High != was.Number.Value+w.High {
				t.Fatalf("prediction %d: %+v, was %+v", i, p, was)
			}
		}
	}
	if a, err := new(Evaluation).adapt(m, rate, 0); err != nil || a.Changed != nil || a.AdaptiveNumbers != nil {
		t.Errorf("without labels: %+v, %v", a, err)
	}
}

// A regression: predictions are numbers with errors, and are far better than the mean. Unknown numbers are not
// learned, and change no prediction.
func TestRetrainOnNumbers(t *testing.T) {
	d := shaken(t, 240, 120)
	m, r := retrained(t, d, RetrainOptions{Spec: smallBank(3), Target: "shaking", Coverage: .8})
	l, left := m.Readouts[0], r.Readout.Numbers
	if l.Interval == nil || l.Interval.Level != .8 || !slices.Equal(l.Classes, []string{"shaking"}) || l.Temperature != 0 || r.Unlabeled != 24 || left == nil || left.Samples != 216 {
		t.Fatalf("%+v of %v, report %+v", l.Interval, l.Classes, r)
	}
	if !strings.Contains(m.Training.Alpha, "root mean squared error") || m.Training.Fingerprint == d.WithoutNumbers("shaking").Fingerprint(archive.Train) {
		t.Errorf("alpha %q, fingerprint %s", m.Training.Alpha, m.Training.Fingerprint)
	}
	ev := evaluated(t, m, d, EvaluateOptions{})
	inside, squares, magnitude := 0, 0., 0.
	for i, p := range ev.Predictions {
		value, low, high := l.Number(p.Scores)
		if p.Number.Value != value || p.Number.Low != low || p.Number.High != high || p.Class != 0 || p.Probability != 0 || p.Truth != d.Series[d.Part(archive.Test)[i]].Number {
			t.Fatalf("%+v: another number than that of its scores", p)
		}
		e := float64(value) - p.Truth
		squares, magnitude = squares+e*e, magnitude+math.Abs(e)
		if float64(low) <= p.Truth && p.Truth <= float64(high) {
			inside++
		}
	}
	n := ev.Numbers
	if n == nil || n.Samples != 120 || math.Abs(n.Coverage-float64(inside)/120) > 1e-9 || math.Abs(n.RMSE-math.Sqrt(squares/120)) > 1e-9 || math.Abs(n.MAE-magnitude/120) > 1e-9 {
		t.Fatalf("evaluated as %+v, want %d inside and errors of %v, %v", n, inside, math.Sqrt(squares/120), magnitude/120)
	}
	if ev.Confusion != nil || ev.Quality != nil || ev.Correct != 0 || ev.Accuracy != 0 {
		t.Errorf("a regression has classes: %+v", ev)
	}
	// For the seed in use; far from both ends of the possible range.
	if *n.R2 < .5 || *left.R2 < .5 || n.Coverage < .6 || n.Coverage > .95 {
		t.Errorf("R2 %v and %v, coverage %v: worse than it was", *n.R2, *left.R2, n.Coverage)
	}
	blind := evaluated(t, m, d.WithoutNumbers("wrong"), EvaluateOptions{})
	if blind.Numbers != nil || blind.Labeled != 0 || len(blind.Predictions) != 120 || blind.Predictions[7].Number.Value != ev.Predictions[7].Number.Value {
		t.Errorf("without numbers: %+v", blind)
	}
	path := filepath.Join(t.TempDir(), "p.parquet")
	if err := ev.WritePredictions(path); err != nil {
		t.Fatal(err)
	}
	rec := predictionRows(t, path)
	for name, of := range map[string]func(Prediction) float64{
		"number": func(p Prediction) float64 { return p.Truth }, "value": func(p Prediction) float64 { return float64(p.Number.Value) },
		"low": func(p Prediction) float64 { return float64(p.Number.Low) }, "high": func(p Prediction) float64 { return float64(p.Number.High) },
	} {
		column := rec.Column(rec.Schema().FieldIndices(name)[0])
		for i, p := range ev.Predictions {
			var got float64
			switch column := column.(type) {
			case *array.Float32:
				got = float64(column.Value(i))
			case *array.Float64:
				got = column.Value(i)
			}
			if got != of(p) {
				t.Fatalf("column %s, row %d: %v, want %v", name, i, got, of(p))
			}
		}
	}
}

// A cap: larger numbers are learned as the cap, predictions keep within the training's range, and evaluate compares
// with capped numbers; the last prediction of each stream is also measured separately.
func TestNumbersCapped(t *testing.T) {
	path, limit := wearing(t, 1<<20), float32(60)
	o := RetrainOptions{Spec: smallBank(1), Policy: reservoir.Policy{Kind: reservoir.Count, Length: 20}, Target: "left", Groups: "machine", Coverage: .8, Cap: &limit, Clip: true}
	m, r, err := retrainRecording(context.Background(), path, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	v := m.Readouts[0].Interval
	if v.Cap == nil || *v.Cap != 60 || v.Clip == nil || v.Clip[1] != 60 || math.Abs(float64(v.Clip[0])-100./360) > 1e-6 { // a float32
		t.Fatalf("interval %+v, limits %+v", v, v.Clip)
	}
	ev, err := evaluateRecording(context.Background(), m, path, EvaluateOptions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	last, squares, n, above := map[string]float64{}, 0., 0, 0
	for _, p := range ev.Predictions {
		if p.Number.Value < v.Clip[0] || p.Number.High > 60 || p.Number.Low > p.Number.Value || p.Score != p.Number.Value {
			t.Fatalf("%+v of score %v", p.Number, p.Score)
		}
		if p.Scores[0] > 60 {
			above++
		}
		if p.Truth != p.Truth {
			continue
		}
		e := float64(p.Number.Value) - min(60, p.Truth)
		last[p.ID], squares, n = e*e, squares+e*e, n+1
	}
	ends := 0.
	for _, e := range last {
		ends += e / float64(len(last))
	}
	if above == 0 {
		t.Error("no score is above the cap: the test has lost its subject")
	}
	if a, l := ev.Numbers, ev.Last; math.Abs(a.RMSE-math.Sqrt(squares/float64(n))) > 1e-9 || l == nil || l.Samples != 6 || math.Abs(l.RMSE-math.Sqrt(ends)) > 1e-9 || a.Coverage < .6 { // float64 sums in another order
		t.Errorf("all %+v of %v, last %+v of %v", a, math.Sqrt(squares/float64(n)), l, math.Sqrt(ends))
	}
	o.Clip = false
	free, without, err := retrainRecording(context.Background(), path, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	if w := free.Readouts[0]; w.Interval.Clip != nil || w.Interval.Low != v.Low || w.Interval.High != v.High || !slices.Equal(w.Weights, m.Readouts[0].Weights) || without.Readout.Numbers.RMSE <= r.Readout.Numbers.RMSE {
		t.Errorf("without limits %+v, errors %v and %v", w.Interval, without.Readout.Numbers.RMSE, r.Readout.Numbers.RMSE)
	}
	adapted, err := ev.adapt(m, .2, 0)
	if err != nil {
		t.Fatal(err)
	}
	if w := adapted.Changed.Readouts[0].Interval; w.Clip == nil || w.Cap == nil || math.Abs(adapted.AdaptiveNumbers.Fixed-ev.Numbers.Coverage) > 1.5/99 { // one number may be on the edge of a float32
		t.Errorf("adapted %+v, fixed %v of %v", w, adapted.AdaptiveNumbers.Fixed, ev.Numbers.Coverage)
	}
}

// A training hop leaves out predictions of the training only: those that are left are as with the larger hop, and the
// model predicts as often as its policy.
func TestTrainingHop(t *testing.T) {
	path := wearing(t, 1<<20)
	for name, c := range map[string]struct{ dense, sparse reservoir.Policy }{
		"window":  {reservoir.Policy{Kind: reservoir.Window, Length: 30, Hop: 2}, reservoir.Policy{Kind: reservoir.Window, Length: 30, Hop: 10}},
		"endless": {reservoir.Policy{Kind: reservoir.Endless, Early: 2}, reservoir.Policy{Kind: reservoir.Endless, Early: 10}},
	} {
		o := RetrainOptions{Spec: smallBank(1), Policy: c.sparse, Target: "left", Coverage: .8}
		want, wanted, err := retrainRecording(context.Background(), path, o, nil)
		if err != nil {
			t.Fatal(err)
		}
		o.Policy, o.TrainHop = c.dense, 10
		m, r, err := retrainRecording(context.Background(), path, o, nil)
		if err != nil {
			t.Fatal(err)
		}
		if m.Policy != c.dense || r.Sequences != wanted.Sequences || r.TrainHop != 10 || !reflect.DeepEqual(m.Readouts, want.Readouts) {
			t.Errorf("%s: policy %+v, %d sequences of %d, or another readout", name, m.Policy, r.Sequences, wanted.Sequences)
		}
		ev, err := evaluateRecording(context.Background(), m, path, EvaluateOptions{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if n := 6 * (360 - c.dense.Length + 2*min(1, c.dense.Length)) / 2; len(ev.Predictions) != n {
			t.Errorf("%s: %d predictions, want %d", name, len(ev.Predictions), n)
		}
	}
	for want, o := range map[string]RetrainOptions{
		"multiple of the 4 samples": {Policy: reservoir.Policy{Kind: reservoir.Window, Length: 20, Hop: 4}, TrainHop: 6},
		"want the policy window":    {Policy: reservoir.Policy{Kind: reservoir.Count, Length: 20}, TrainHop: 40},
		"and no target":             {Policy: reservoir.Policy{Kind: reservoir.Marked}, Clip: true},
		"a cap of NaN":              {Policy: reservoir.Policy{Kind: reservoir.Marked}, Target: "left", Cap: notANumber()},
	} {
		o.Spec = smallBank(1)
		if err := checkTraining(labeledData{channels: []string{"a"}, classes: []string{"left"}, target: o.Target}, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func notANumber() *float32 {
	x := float32(math.NaN())
	return &x
}

// Each prediction has time, seq and part of its last sample, in the file, too.
func TestPredictionsHaveTheirSample(t *testing.T) {
	path := wearing(t, 1<<20)
	o := RetrainOptions{Spec: smallBank(1), Policy: reservoir.Policy{Kind: reservoir.Gap, Gap: 20 * time.Second}, Target: "left", Coverage: .8}
	m, _, err := retrainRecording(context.Background(), path, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	parts := []byte(`{"eusn_parts":1,"rule":"stream","train":["m1","m3","m4","m5"],"test":["m0","m2"]}`)
	for name, division := range map[string][]byte{"whole": nil, "parts": parts} {
		ev, err := evaluateRecording(context.Background(), m, path, EvaluateOptions{Parts: division}, nil)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "p.parquet")
		if err := ev.WritePredictions(file); err != nil {
			t.Fatal(err)
		}
		rec := predictionRows(t, file)
		column := func(name string) arrow.Array { return rec.Column(rec.Schema().FieldIndices(name)[0]) }
		at, seq, part := column("time").(*array.Timestamp), column("seq").(*array.Int64), column("part").(*array.String)
		start := time.Date(2026, 3, 1, 6, 0, 0, 0, time.UTC)
		for i, p := range ev.Predictions {
			n := p.Position - 1
			last, want := start.Add(time.Duration(n)*time.Second+time.Duration(n/30)*time.Minute).UnixNano(), archive.Split("")
			if division != nil {
				want = map[bool]archive.Split{true: archive.Test, false: archive.Train}[p.ID == "m0" || p.ID == "m2"]
			}
			if p.Time != last || *p.Seq != p.Position || p.Part != want {
				t.Fatalf("%s: prediction %d of %s: time %d, seq %d, part %q, want %d, %d, %q", name, p.Position, p.ID, p.Time, *p.Seq, p.Part, last, p.Position, want)
			}
			if int64(at.Value(i)) != last || seq.Value(i) != p.Position || part.IsNull(i) != (want == "") || part.Value(i) != string(want) {
				t.Fatalf("%s: row %d: %d, %d, %q", name, i, at.Value(i), seq.Value(i), part.Value(i))
			}
		}
	}
	d := shaken(t, 60, 20)
	set, _ := retrained(t, d, RetrainOptions{Spec: smallBank(3), Target: "shaking", Coverage: .8})
	for _, p := range evaluated(t, set, d, EvaluateOptions{}).Predictions {
		if p.Time != archive.NoTime || p.Seq != nil || p.Part != archive.Test {
			t.Fatalf("a series: time %d, seq %v, part %q", p.Time, p.Seq, p.Part)
		}
	}
}

func TestNumbersRefused(t *testing.T) {
	d := shaken(t, 60, 20)
	for want, o := range map[string]RetrainOptions{
		"numbers have no classes":        {Target: "shaking", CoverageByClass: true},
		"healthy data alone":             {Target: "shaking", Novelty: &NoveltyOptions{HealthyOnly: true, Healthy: "shaking"}},
		`has numbers of "shaking", want`: {Target: "wear"},
		`want those of ""`:               {},
		"needs at least 199 samples":     {Target: "shaking", Coverage: .99},
	} {
		o.Spec = smallBank(3)
		if _, _, err := Retrain(context.Background(), d, o, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := RetrainShard(context.Background(), d, RetrainOptions{Spec: smallBank(3), Target: "shaking"}, Shard{1, 2}, filepath.Join(t.TempDir(), "s"), nil); err == nil || !strings.Contains(err.Error(), "train in one job") {
		t.Errorf("a shard: %v", err)
	}
	classes := tones(60, 30)
	m, _ := retrained(t, classes, RetrainOptions{Spec: smallBank(2)})
	numbers := tones(60, 30)
	numbers.Target, numbers.Classes = "pitch", []string{"pitch"}
	for i := range numbers.Series {
		numbers.Series[i].SetNumber(float64(i))
	}
	if _, err := Evaluate(context.Background(), m, numbers, EvaluateOptions{}, nil); err == nil || !strings.Contains(err.Error(), "the model predicts classes") {
		t.Errorf("classes of numbers: %v", err)
	}
	regression, _ := retrained(t, numbers, RetrainOptions{Spec: smallBank(2), Target: "pitch"})
	if _, _, err := update(context.Background(), regression, bridge.Sequences{Name: "known", Classes: []string{"a", "b"}, Sequences: make([]bridge.Sequence, 3)}, RetrainOptions{}, nil); err == nil || !strings.Contains(err.Error(), "predicts numbers") {
		t.Errorf("learning classes for a regression: %v", err)
	}
}

// wearing is a recording of machines that wear: their remaining life falls from sample to sample, and their vibration
// grows. Pauses of a minute separate runs of 30 samples. The second half of machine 0 has no known numbers.
func wearing(t *testing.T, rows int64) string {
	t.Helper()
	const machines, runs, length = 6, 12, 30
	var stream, at []string
	var machine, seq []int
	var a []float64
	var end []bool
	var left []any
	draw := rand.New(rand.NewPCG(3, 0))
	start := time.Date(2026, 3, 1, 6, 0, 0, 0, time.UTC)
	for n := range runs * length {
		for k := range machines {
			wear := float64(n) / (runs * length)
			stream, machine, seq = append(stream, fmt.Sprintf("m%d", k)), append(machine, k), append(seq, n+1)
			at = append(at, start.Add(time.Duration(n)*time.Second+time.Duration(n/length)*time.Minute).Format(time.RFC3339))
			a, end = append(a, (1+3*wear)*math.Sin(.9*float64(n)+float64(k))+.1*draw.NormFloat64()), append(end, n%length == length-1)
			if left = append(left, 100*(1-wear)); k == 0 && n >= runs*length/2 {
				left[len(left)-1] = nil
			}
		}
	}
	meta := map[string]string{"eusn.archive": "recording", "eusn.version": "1", "eusn.problem": "wear", "eusn.channels": `["a"]`, "eusn.provenance": `{}`}
	path := filepath.Join(t.TempDir(), "wear.parquet")
	if err := os.WriteFile(path, archivetest.Foreign(t, meta, []archivetest.Column{
		{"stream", archivetest.Text, rowsOf(stream)}, {"seq", arrow.PrimitiveTypes.Int64, rowsOf(seq)}, {"time", arrow.FixedWidthTypes.Timestamp_us, rowsOf(at)},
		{"a", archivetest.Number, rowsOf(a)}, {"end", arrow.FixedWidthTypes.Boolean, rowsOf(end)}, {"label", archivetest.Text, rowsOf(make([]*string, len(a)))},
		{"machine", arrow.PrimitiveTypes.Int32, rowsOf(machine)}, {"left", arrow.PrimitiveTypes.Float64, rowsOf(left)},
	}, parquet.WithMaxRowGroupLength(rows)), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// A sequence of a recording has the number of its last sample, wherever the file's row groups end, under every
// policy; a sequence without a number is not learned from.
func TestNumbersOfRecordings(t *testing.T) {
	whole, pieces := wearing(t, 1<<20), wearing(t, 7)
	rule := parsedRule(t, "machine")
	for name, c := range map[string]struct {
		policy         reservoir.Policy
		unknown, least int
		last           func(p Prediction) int64 // sample of the stream that the number is of
	}{
		"count":  {reservoir.Policy{Kind: reservoir.Count, Length: 20}, 9, 99, func(p Prediction) int64 { return p.Position }},
		"window": {reservoir.Policy{Kind: reservoir.Window, Length: 30, Hop: 10}, 18, 186, func(p Prediction) int64 { return p.Position }},
		"marked": {reservoir.Policy{Kind: reservoir.Marked}, 6, 66, func(p Prediction) int64 { return p.Position }},
		"gap":    {reservoir.Policy{Kind: reservoir.Gap, Gap: 20 * time.Second}, 6, 66, func(p Prediction) int64 { return p.Position }},
	} {
		o := RetrainOptions{Spec: smallBank(1), Policy: c.policy, Target: "left", Groups: rule.String(), Coverage: .8}
		m, r, err := retrainRecording(context.Background(), whole, o, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if r.Unlabeled != c.unknown || r.Sequences != c.least || r.Readout.Groups != 6 || r.ByGroup != nil {
			t.Errorf("%s: %d sequences, %d unknown, %d groups, want %d, %d and 6", name, r.Sequences, r.Unlabeled, r.Readout.Groups, c.least, c.unknown)
		}
		other, _, err := retrainRecording(context.Background(), pieces, o, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if other.Training.Fingerprint != m.Training.Fingerprint || !reflect.DeepEqual(other.Readouts, m.Readouts) {
			t.Errorf("%s: other row groups, another model", name)
		}
		for _, path := range []string{whole, pieces} {
			ev, err := evaluateRecording(context.Background(), m, path, EvaluateOptions{}, nil)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if ev.Numbers == nil || ev.Numbers.Samples != c.least || ev.Labeled != c.least || ev.Sequences != c.least+c.unknown || *ev.Numbers.R2 < .5 {
				t.Errorf("%s: %+v of %d sequences, %d known", name, ev.Numbers, ev.Sequences, ev.Labeled)
			}
			for _, p := range ev.Predictions {
				want := 100 * (1 - float64(c.last(p)-1)/360)
				if p.ID == "m0" && c.last(p) > 180 {
					want = math.NaN()
				}
				if !(math.Abs(p.Truth-want) < 1e-9) && !(want != want && p.Truth != p.Truth) {
					t.Fatalf("%s: %s up to sample %d has %v, want %v", name, p.ID, p.Position, p.Truth, want)
				}
			}
		}
	}
	if _, _, err := retrainRecording(context.Background(), whole, RetrainOptions{Spec: smallBank(1), Target: "a"}, nil); err == nil || !strings.Contains(err.Error(), "is a channel") {
		t.Errorf("a channel as target: %v", err)
	}
	if _, _, err := retrainRecording(context.Background(), whole, RetrainOptions{Spec: smallBank(1), Target: "rest"}, nil); err == nil || !strings.Contains(err.Error(), `no column "rest"`) {
		t.Errorf("no such column: %v", err)
	}
}

// A front end before a model of numbers: the samples of a recording count without labels, too.
func TestNumbersWithFront(t *testing.T) {
	o := RetrainOptions{Spec: smallBank(1), Policy: reservoir.Policy{Kind: reservoir.Count, Length: 20}, Front: Front{Envelope: Span{Samples: 2}}, Target: "left", Coverage: .8}
	m, _, err := retrainRecording(context.Background(), wearing(t, 1<<20), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := m.Network.Norm; n.Scale[0] == 0 || n.Mean[0] <= 0 {
		t.Errorf("constants of the input after an envelope: %+v", n)
	}
}

// A recording without the target's column is predicted all the same.
func TestNumbersOfRecordingsUnknown(t *testing.T) {
	m, _, err := retrainRecording(context.Background(), wearing(t, 1<<20), RetrainOptions{Spec: smallBank(1), Policy: reservoir.Policy{Kind: reservoir.Count, Length: 20}, Target: "left", Coverage: .8}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ev, err := evaluateRecording(context.Background(), m, fleet(t, 3), EvaluateOptions{}, nil) // fleet has labels
	if err != nil {
		t.Fatal(err)
	}
	if ev.Numbers != nil || ev.Labeled != 0 || ev.Sequences == 0 || ev.Predictions[0].Number.Value == 0 {
		t.Errorf("%+v", ev)
	}
}

// rowsOf are the rows of a column as JSON.
func rowsOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}
