package offline

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/fit"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/classify"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

var nan = float32(math.NaN())

// tones is a small data set that a small bank learns: three classes of noisy
// sines of different frequency on two channels, lengths 20 to 60. Classes
// alternate, so each part holds all.
func tones(train, test int) *archive.Dataset {
	rng := rand.New(rand.NewPCG(3, 14))
	d := &archive.Dataset{Name: "tones", Channels: []string{"a", "b"}, Classes: []string{"high", "low", "mid"}}
	for i := range train + test {
		s := archive.Series{Label: i % 3, Split: archive.Train, ID: "s-" + string(rune('A'+i%26)) + string(rune('a'+i/26))}
		if i >= train {
			s.Split = archive.Test
		}
		step, phase := []float64{1.6, 0.2, 0.7}[s.Label], 7*rng.Float64()
		for t := range 20 + rng.IntN(41) {
			v := math.Sin(phase + step*float64(t))
			s.Values = append(s.Values, float32(5+v+0.3*rng.NormFloat64()), float32(rng.NormFloat64()))
		}
		d.Series = append(d.Series, s)
	}
	return d
}

// smallBank is the default bank, reduced for tests.
func smallBank(channels int) reservoir.Spec {
	s := reservoir.EulerBank(channels)
	s.Members, s.Units = 4, 8
	return s
}

func retrained(t *testing.T, d *archive.Dataset, opt RetrainOptions) (*reservoir.Model, RetrainReport) {
	t.Helper()
	m, r, err := Retrain(context.Background(), d, opt, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m, r
}

func evaluated(t *testing.T, m *reservoir.Model, d *archive.Dataset, opt EvaluateOptions) *Evaluation {
	t.Helper()
	ev, err := Evaluate(context.Background(), m, d, opt, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

// fingerprint is the model's fingerprint, which covers every bit.
func fingerprint(t *testing.T, m *reservoir.Model) string {
	t.Helper()
	f, err := m.Fingerprint()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestDefaultBankIsValid(t *testing.T) {
	for _, channels := range []int{1, 3, 24} {
		s := reservoir.EulerBank(channels)
		if err := s.Validate(); err != nil {
			t.Error(err)
		}
		if s.FeatureCount() != 10000 {
			t.Errorf("%d features, want 10000", s.FeatureCount())
		}
	}
	for _, kind := range []reservoir.Kind{reservoir.EuSN, reservoir.ESN, reservoir.RESN} {
		p := reservoir.PaperOptions{Kind: kind, Units: 10, Eps: 0.01, Gamma: 0.001, Recurrent: 1, SpectralRadius: 0.9, Leak: 0.1, Input: 1, Bias: 1}
		if err := reservoir.Paper(2, p).Validate(); err != nil {
			t.Error(err)
		}
	}
}

// TestLibraryTrainsTheSameModel: reservoir.Train on slices is Retrain on a data
// set, but for the names that slices do not have; no bit differs, with fewer
// series than features and with more.
func TestLibraryTrainsTheSameModel(t *testing.T) {
	euler := smallBank(2)
	euler.Members, euler.Units = 2, 6 // 60 features
	for n, spec := range map[int]reservoir.Spec{30: euler, 120: euler, 1030: fewTaps(2)} {
		d := manyTones(n)
		want, _ := retrained(t, d, RetrainOptions{Spec: spec})
		var series [][]float32
		var labels []string
		for _, s := range d.Series {
			series, labels = append(series, s.Values), append(labels, d.Classes[s.Label])
		}
		got, err := classify.Train(context.Background(), spec, series, labels)
		if err != nil {
			t.Fatal(err)
		}
		got.Channels, got.Training.Dataset, got.Training.Fingerprint = want.Channels, want.Training.Dataset, want.Training.Fingerprint
		if fingerprint(t, got) != fingerprint(t, want) {
			t.Errorf("%d series: %+v, want %+v", n, got.Training, want.Training)
		}
	}
}

// The model file keeps the trained values, and no number of threads and no size of calls changes a bit.
func TestRetrainLearnsAndIsDeterministic(t *testing.T) {
	d := tones(90, 60)
	m, r := retrained(t, d, RetrainOptions{Spec: smallBank(2), Tool: "test 1", EngineOptions: EngineOptions{Threads: 1}})
	if r.Series != 90 || r.Missing != 0 || len(r.Readout.Trials) != 9 {
		t.Errorf("report %+v", r)
	}
	if tr := m.Training; tr.Dataset != "tones" || tr.Fingerprint != d.Fingerprint(archive.Train) || tr.Series != 90 || tr.Samples != r.Samples ||
		tr.MaxLength < 50 || tr.MaxLength > 60 || tr.Alpha == "" || tr.Tool != "test 1" || m.Policy.Kind != reservoir.Marked {
		t.Errorf("training %+v, policy %+v", tr, m.Policy)
	}
	ev := evaluated(t, m, d, EvaluateOptions{})
	// This small bank gets .88 (the full bank 1); chance gets a third.
	if ev.Accuracy < 0.8 || ev.Series != 60 || ev.Labeled != 60 {
		t.Errorf("accuracy %g of %d series, want at least .8 of 60", ev.Accuracy, ev.Series)
	}
	path := t.TempDir() + "/model"
	if err := m.Save(path); err != nil {
		t.Fatal(err)
	}
	loaded, err := reservoir.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, threads := range []int{0, 3, 50} {
		opt := EngineOptions{Threads: threads}
		again, _ := retrained(t, d, RetrainOptions{Spec: smallBank(2), Tool: "test 1", EngineOptions: opt})
		if fingerprint(t, again) != fingerprint(t, m) {
			t.Errorf("%d threads give another model", threads)
		}
		if got := evaluated(t, loaded, d, EvaluateOptions{EngineOptions: opt}); !reflect.DeepEqual(got, ev) {
			t.Errorf("%d threads, or the way through the file, give another evaluation", threads)
		}
	}
}

// Changing the test part changes nothing in the model.
func TestRetrainNeverSeesTheTestPart(t *testing.T) {
	d := tones(60, 30)
	m, _ := retrained(t, d, RetrainOptions{Spec: smallBank(2)})
	for i := range d.Series {
		if d.Series[i].Split == archive.Test {
			d.Series[i].Label = (d.Series[i].Label + 1) % 3
			for k := range d.Series[i].Values {
				d.Series[i].Values[k] *= 100
			}
		}
	}
	again, _ := retrained(t, d, RetrainOptions{Spec: smallBank(2)})
	if fingerprint(t, again) != fingerprint(t, m) {
		t.Error("another test part gives another model")
	}
}

// The evaluation's scores equal the scores of samples fed one by one, like a stream.
func TestEvaluateIsTheStream(t *testing.T) {
	d := tones(60, 9)
	m, _ := retrained(t, d, RetrainOptions{Spec: smallBank(2)})
	ev := evaluated(t, m, d, EvaluateOptions{})
	e, err := cpu.New(m.Network, 1, cpu.Options{Kind: cpu.Generic})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.SetReadouts(m.Readouts); err != nil {
		t.Fatal(err)
	}
	scores := make([]float32, e.ScoreWidth())
	for k, i := range d.Part(archive.Test) {
		for n := range d.Len(i) {
			run := reservoir.Run{Reset: n == 0, Emit: n == d.Len(i)-1, To: 1}
			if err := e.Advance(d.Series[i].Values[2*n:2*n+2], []reservoir.Run{run}, scores); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(scores, ev.Predictions[k].Scores) {
			t.Errorf("series %d: streamed %v, evaluated %v", i, scores, ev.Predictions[k].Scores)
		}
	}
}

// The paper's protocol: the readout is the plain ridge classifier of the last
// states with alpha 1.
func TestRetrainByThePaper(t *testing.T) {
	d := tones(60, 0)
	spec := reservoir.Paper(2, reservoir.PaperOptions{Units: 12, Eps: 0.1, Gamma: 0.01, Recurrent: 0.5, Input: 0.3, Bias: 0.1, Seed: 4})
	m, r := retrained(t, d, RetrainOptions{Spec: spec, Alphas: []float64{1}, RawFeatures: true})
	if r.Readout.Alpha != 1 || len(r.Readout.Trials) != 0 || m.Training.Alpha != "1, given" {
		t.Errorf("alpha %g, trials %v, %q", r.Readout.Alpha, r.Readout.Trials, m.Training.Alpha)
	}
	e, err := cpu.New(m.Network, 1, cpu.Options{Kind: cpu.Generic})
	if err != nil {
		t.Fatal(err)
	}
	last, labels := make([]float32, 12*len(d.Series)), make([]int, len(d.Series))
	for i, s := range d.Series {
		if err := e.Advance(s.Values, []reservoir.Run{{Reset: true, To: int32(d.Len(i))}}, nil); err != nil {
			t.Fatal(err)
		}
		if err := e.Features(0, last[12*i:12*i+12]); err != nil {
			t.Fatal(err)
		}
		labels[i] = s.Label
	}
	linear, _, err := fit.Fit(context.Background(), last, labels, d.Classes, fit.Options{Alphas: []float64{1}})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(linear, m.Readouts[0]) {
		t.Error("the last states, one series after the other, give another readout")
	}
}

// tinyBank is the smallest of the mixed banks.
func tinyBank(channels int) reservoir.Spec {
	s, err := reservoir.Bank("tiny", channels)
	if err != nil {
		panic(err)
	}
	return s
}

// A mixed bank takes its largest lag and its scales from the policy's sequences, not from the series.
func TestRetrainMixed(t *testing.T) {
	d := tones(60, 0)
	m, r := retrained(t, d, RetrainOptions{Spec: tinyBank(2), Policy: reservoir.Policy{Kind: reservoir.Count, Length: 20}})
	if got := m.Network.Spec.Taps.MaxLag; got != 5 || r.MedianLength != 20 {
		t.Errorf("sequences of %d samples in the median, largest lag %d, want 20 and 5", r.MedianLength, got)
	}
	features := make([][]float32, 0, r.Sequences)
	for _, s := range d.Series {
		for x := s.Values; s.Split == archive.Train && len(x) >= 40; x = x[40:] {
			features = append(features, x[:40])
		}
	}
	all, err := classify.Features(context.Background(), m.Network, features)
	if err != nil {
		t.Fatal(err)
	}
	// The center is the mean of each feature, whatever the order of the sums.
	for j, c := range m.Readouts[0].Center {
		sum := 0.
		for i := range features {
			sum += float64(all[i*len(m.Readouts[0].Center)+j])
		}
		if mean := sum / float64(len(features)); math.Abs(mean-float64(c)) > 1e-5*(1+math.Abs(mean)) {
			t.Fatalf("feature %d: center %v, want the mean %v of %d sequences", j, c, mean, len(features))
		}
	}
}

func TestNormAndMissingValues(t *testing.T) {
	// Channel a: 1, 3 | 5; b: constant; c: entirely missing; d: large mean.
	d := &archive.Dataset{Name: "n", Channels: []string{"a", "b", "c", "d"}, Classes: []string{"x", "y"}, Series: []archive.Series{
		{ID: "1", Split: archive.Train, Label: 0, Values: []float32{1, 7, nan, 1e6, nan, 7, nan, 1e6 + 1, 3, 7, nan, 1e6}},
		{ID: "2", Split: archive.Train, Label: 1, Values: []float32{5, 7, nan, 1e6 + 1}},
		{ID: "3", Split: archive.Test, Label: 1, Values: []float32{500, 70, 10, -3}},
	}}
	of := newInputs(4)
	if err := (&seriesSource{d: d, series: d.Part(archive.Train)}).read(context.Background(), func(p *chunk) error { of.add(p); return nil }); err != nil {
		t.Fatal(err)
	}
	n := of.statistics.Norm(reservoir.EulerBank(4))
	// a: mean 3, variance 8/3, and no two neighbors. d: two values half each.
	want := reservoir.Norm{
		Mean:  []float32{3, 7, 0, 1e6 + 0.5},
		Scale: []float32{float32(1 / math.Sqrt(8./3)), 0, 0, 2},
		Diff:  []float32{0, 0, 0, 1},
	}
	if !reflect.DeepEqual(n, want) {
		t.Errorf("got %+v, want %+v", n, want)
	}

	holes := tones(60, 30)
	filled := 0
	for i := range holes.Series {
		v := holes.Series[i].Values
		v[0], v[2] = nan, nan // channel a, the first two samples
		filled += 2
	}
	m, r := retrained(t, holes, RetrainOptions{Spec: smallBank(2)})
	ev := evaluated(t, m, holes, EvaluateOptions{})
	if r.Missing+ev.Missing != int64(filled) {
		t.Errorf("%d + %d missing values reported, want %d", r.Missing, ev.Missing, filled)
	}
	for i := range holes.Series {
		v := holes.Series[i].Values
		v[0], v[2] = m.Network.Norm.Mean[0], m.Network.Norm.Mean[0]
	}
	byHand := evaluated(t, m, holes, EvaluateOptions{})
	for k, p := range byHand.Predictions {
		if !slices.Equal(p.Scores, ev.Predictions[k].Scores) {
			t.Fatalf("series %d: filling by hand gives other scores", k)
		}
	}
}

func TestRetrainRefuses(t *testing.T) {
	for what, spoil := range map[string]func(*archive.Dataset, *RetrainOptions){
		"token lists": func(d *archive.Dataset, _ *RetrainOptions) {
			d.Channels = nil
			for i := range d.Series {
				d.Series[i].Values, d.Series[i].Tokens = nil, []int32{1, 2}
			}
		},
		"reads 3 channels":           func(_ *archive.Dataset, o *RetrainOptions) { o.Spec.Channels = 3 },
		"no labeled training series": func(d *archive.Dataset, _ *RetrainOptions) { setSplit(d, archive.Test) },
		`every sample is of class "low"`: func(d *archive.Dataset, _ *RetrainOptions) {
			for i := range d.Series {
				d.Series[i].Label = 1
			}
		},
		`the one class "low"`: func(d *archive.Dataset, _ *RetrainOptions) {
			d.Classes = []string{"low"}
			for i := range d.Series {
				d.Series[i].Label = 0
			}
		},
		"alpha = -1":              func(_ *archive.Dataset, o *RetrainOptions) { o.Alphas = []float64{-1} },
		`series "s-Ba", sample 3`: func(d *archive.Dataset, _ *RetrainOptions) { d.Series[1].Values[6] = 2e15 },
		`policy "sometimes"`:      func(_ *archive.Dataset, o *RetrainOptions) { o.Policy.Kind = "sometimes" },
		"spec: units = -1":        func(_ *archive.Dataset, o *RetrainOptions) { o.Spec.Units = -1 },
		"out of engines":          func(_ *archive.Dataset, o *RetrainOptions) { o.NewEngine = noEngine },
		"12 samples of 4915200 features need": func(_ *archive.Dataset, o *RetrainOptions) {
			o.Spec.Members, o.Spec.Units, o.Memory = 4096, 240, 1<<20
		},
	} {
		d, opt := tones(12, 0), RetrainOptions{Spec: smallBank(2)}
		spoil(d, &opt)
		m, _, err := Retrain(context.Background(), d, opt, nil)
		if err == nil || m != nil || !strings.Contains(err.Error(), what) {
			t.Errorf("got %v, want an error saying %q", err, what)
		}
	}
}

func setSplit(d *archive.Dataset, s archive.Split) {
	for i := range d.Series {
		d.Series[i].Split = s
	}
}

func noEngine(*reservoir.Network, int) (reservoir.Engine, error) {
	return nil, errors.New("out of engines")
}

// A canceled job ends with the context's error, engines closed, and leaves no goroutine: run waits for its workers.
func TestRetrainStops(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	_, _, err := Retrain(ctx, tones(300, 0), RetrainOptions{Spec: smallBank(2)}, func(done, total int64, what string) {
		if done > 0 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
}

func TestRetrainReportsUnlabeled(t *testing.T) {
	d := tones(60, 0)
	d.Series[7].Label = -1
	_, r := retrained(t, d, RetrainOptions{Spec: smallBank(2)})
	if r.Series != 59 || r.Unlabeled != 1 {
		t.Errorf("%d series and %d unlabeled, want 59 and 1", r.Series, r.Unlabeled)
	}
}
