package shard

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/detect"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/readout/novelty"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// calls counts the calls of an engine.
type calls struct {
	reservoir.Engine
	advanced int
}

func (c *calls) Advance(inputs []float32, runs []reservoir.Run, scores []float32) error {
	c.advanced++
	return c.Engine.Advance(inputs, runs, scores)
}

// Each prediction carries the novelty of its sequence's features, for any other content
// of the batch, and a batch needs no more engine calls than one stream has sequences in
// the batch.
func TestNovelty(t *testing.T) {
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Count, Length: 4})
	d := pipelinetest.Detector(m, 3)
	m.Readouts[0].Novelty = d
	l := newLone(t, m, Config{})
	l.SetCarried(1)
	engine := &calls{Engine: l.pool.engine}
	l.pool.engine = engine
	l.b.Reset()
	const streams, sequences = 9, 3
	for s := range streams {
		values := make([]float32, 2*(4*sequences+1))
		for i := range values {
			values[i] = float32(math.Sin(float64(i*(s+1)))) * float32(s)
		}
		if err := l.takeJob(l.b, l.jobOf(pipelinetest.Rows(fmt.Sprint("s", s), 1, false, values...))); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.AdvanceBatch(l.b); err != nil {
		t.Fatal(err)
	}
	a := &l.b.Answers[0]
	if len(a.Preds) != streams*sequences || len(a.Carried) != len(a.Preds) || engine.advanced != sequences+1 {
		t.Fatalf("%d predictions, %d with features, %d engine calls; want %d, all, and %d", len(a.Preds), len(a.Carried), engine.advanced, streams*sequences, sequences+1)
	}
	seen := map[float32]bool{}
	for i, c := range a.Carried {
		p := a.Preds[i]
		z, inputs := slices.Clone(a.FeaturesOf(c, d.Features())), make([]float32, d.InputValues())
		want := d.Score(z)
		d.ReadInputs(inputs, z)
		if len(inputs) != 6 || !pipelinetest.SameBits(p.Inputs, inputs) {
			t.Fatalf("prediction %d has the inputs %v, its features %v", i, p.Inputs, inputs)
		}
		if c.Pred != i || math.Float32bits(p.Novelty) != math.Float32bits(want) || p.NoveltyP != d.P(want) {
			t.Fatalf("prediction %d has the novelty %v, p %v; its features, of prediction %d, have %v, %v", i, p.Novelty, p.NoveltyP, c.Pred, want, d.P(want))
		}
		seen[p.NoveltyP] = true
	}
	if len(seen) < 5 {
		t.Fatalf("p-values %v: the test has lost its subject", seen)
	}
	for name, engines := range novelEngines { // message by message
		again := newLoneOn(t, m, Config{}, engines)
		var got []codec.Prediction
		for s := range streams {
			values := make([]float32, 2*(4*sequences+1))
			for i := range values {
				values[i] = float32(math.Sin(float64(i*(s+1)))) * float32(s)
			}
			got = append(got, again.feedAll(pipelinetest.Rows(fmt.Sprint("s", s), 1, false, values[:10]...), pipelinetest.Rows(fmt.Sprint("s", s), 2, false, values[10:]...))...)
		}
		if len(got) != len(a.Preds) {
			t.Fatalf("%s: %d predictions, want %d", name, len(got), len(a.Preds))
		}
		for i := range got {
			if p := a.Preds[i]; got[i].Novelty != p.Novelty || got[i].NoveltyP != p.NoveltyP || !pipelinetest.SameBits(got[i].Scores, p.Scores) || !pipelinetest.SameBits(got[i].Inputs, p.Inputs) {
				t.Fatalf("%s, prediction %d, message by message: %+v, all at once %+v", name, i, got[i], p)
			}
		}
	}
}

// Of overlapping windows, each novelty adds the running means of the stream's samples up to the prediction, for any
// division of the stream into messages.
func TestNoveltyMeans(t *testing.T) {
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Window, Length: 4, Hop: 2})
	d := pipelinetest.Detector(m, 3)
	rng := rand.New(rand.NewPCG(3, 5))
	d.Means = &novelty.Means{Center: pipelinetest.Noise(rng, 4), Axes: pipelinetest.Noise(rng, 12)}
	m.Front = &reservoir.Front{Means: []int{2, 5}, Fill: m.Network.Norm.Mean}
	m.Readouts[0].Novelty = d
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	without := *m
	plain, alone := *m.Readouts[0], *d
	alone.Means, plain.Novelty, without.Front = nil, &alone, nil
	without.Readouts = []*readout.Linear{&plain}
	values := pipelinetest.Noise(rng, 2*30)
	residuals := newLone(t, &without, Config{}).feedAll(pipelinetest.Rows("s", 1, false, values...))
	for name, engines := range novelEngines {
		for _, size := range []int{1, 7, 30} {
			l, at := newLoneOn(t, m, Config{}, engines), 0
			var got []codec.Prediction
			for k, some := range slices.Collect(slices.Chunk(values, 2*size)) {
				got = append(got, l.feedAll(pipelinetest.Rows("s", uint64(k+1), false, some...))...)
			}
			if len(got) != 14 || len(residuals) != 14 {
				t.Fatalf("%s: %d predictions, want 14", name, len(got))
			}
			state, statistics := make([]float64, m.Front.StateSize(2)), make([]float32, 4)
			for i, p := range got {
				to := 4 + 2*i
				m.Front.Run(state, int64(at), slices.Clone(values[2*at:2*to]), 2)
				m.Front.Statistics(statistics, state, 2)
				at = to
				if want := d.AddMeans(residuals[i].Novelty, statistics); p.Novelty != want || p.Novelty == residuals[i].Novelty || p.NoveltyP != d.P(want) {
					t.Fatalf("%s, messages of %d samples, prediction %d: novelty %v, p %v, want %v", name, size, i, p.Novelty, p.NoveltyP, want)
				}
			}
		}
	}
}

// novelEngines are an engine without Judging, and this machine's engine, perhaps with
// Judging.
var novelEngines = map[string]engineFactory{
	"plain": pipelinetest.Generic,
	"CPU": func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
		return cpu.New(net, slots, cpu.Options{Threads: 2})
	},
}

// Early predictions cover no whole sequence, and have no novelty. Final predictions
// have the same novelty as without early predictions, also from a shadow.
func TestNoveltyAtEnds(t *testing.T) {
	for name, engines := range novelEngines {
		t.Run(name, func(t *testing.T) { noveltyAtEnds(t, engines) })
	}
}

func noveltyAtEnds(t *testing.T, engines engineFactory) {
	var ends [2][]codec.Prediction
	for i, early := range []int{0, 2} {
		m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Count, Length: 4, Early: early})
		m.Readouts[0].Novelty = pipelinetest.Detector(m, 3)
		l := newLoneOn(t, m, Config{}, engines)
		l.SetShadows(&[]Shadow{{Name: "shadow", Linear: m.Readouts[0]}})
		values := make([]float32, 2*4*5)
		for k := range values {
			values[k] = float32(math.Sin(float64(k * k)))
		}
		l.b.Reset()
		if err := l.shadowOf(l.b); err != nil {
			t.Fatal(err)
		}
		if err := l.takeJob(l.b, l.jobOf(pipelinetest.Rows("s", 1, false, values...))); err != nil {
			t.Fatal(err)
		}
		if err := l.AdvanceBatch(l.b); err != nil {
			t.Fatal(err)
		}
		a := &l.b.Answers[0]
		for k, p := range a.Preds {
			_, shadow := a.ShadowScores(1, 0, k)
			if p.Flags&outcome.FlagEarly == 0 {
				if shadow != p.Novelty {
					t.Errorf("early every %d, prediction %d: novelty %v, its shadow's %v", early, k, p.Novelty, shadow)
				}
				ends[i] = append(ends[i], p)
			} else if p.Novelty != 0 || p.NoveltyP != 0 || p.Inputs != nil || shadow != NotJudged {
				t.Errorf("early prediction %d has novelty %v, p %v, its shadow %v", k, p.Novelty, p.NoveltyP, shadow)
			}
		}
		if got, want := len(a.Preds), 5*(1+early/2); got != want {
			t.Fatalf("early every %d: %d predictions, want %d", early, got, want)
		}
	}
	if len(ends[1]) != 5 || !slices.EqualFunc(ends[0], ends[1], func(p, q codec.Prediction) bool {
		return p.NoveltyP > 0 && p.NoveltyP == q.NoveltyP && math.Float32bits(p.Novelty) == math.Float32bits(q.Novelty)
	}) {
		t.Errorf("ends without early predictions %+v, with %+v", ends[0], ends[1])
	}
}

// A readout without known faults predicts only with the detector.
func TestDetects(t *testing.T) {
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Count, Length: 4})
	h := m.Readouts[0]
	h.Novelty, h.Detects, h.Classes = pipelinetest.Detector(m, 2), true, []string{"normal", "novel"}
	h.Novelty.Level = .88 // in the middle of the scores
	l := newLone(t, m, Config{})
	count := [2]int{}
	for s := range 40 {
		values := make([]float32, 8)
		for i := range values {
			values[i] = float32(s) / 10 * float32(math.Sin(float64(i*s)))
		}
		for _, p := range l.feedAll(pipelinetest.Rows(fmt.Sprint(s), 1, false, values...)) {
			if novel := h.Novelty.Novel(p.NoveltyP); novel != (p.Class == 1) || p.Scores[0] != h.Detected(p.Novelty) {
				t.Fatalf("%+v: novel is %v", p, novel)
			}
			count[p.Class]++
		}
	}
	if count[0] < 3 || count[1] < 3 {
		t.Fatalf("%v: the test has lost its subject", count)
	}
}

// Novelty costs no memory once a shard has had as much.
func TestNoveltyNoAllocation(t *testing.T) {
	for name, engines := range novelEngines {
		t.Run(name, func(t *testing.T) { noveltyNoAllocation(t, engines) })
	}
}

func noveltyNoAllocation(t *testing.T, engines engineFactory) {
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Count, Length: 16})
	m.Readouts[0].Novelty = pipelinetest.Detector(m, 3)
	l := newLoneOn(t, m, Config{}, engines)
	values := make([]float32, 2*64)
	for i := range values {
		values[i] = float32(math.Sin(float64(i)))
	}
	j := l.jobOf(pipelinetest.Rows("s", 0, false, values...))
	step := func() {
		l.next++
		j.Msg.Seq = l.next
		l.b.Reset()
		if err := l.takeJob(l.b, j); err != nil {
			t.Fatal(err)
		}
		if err := l.AdvanceBatch(l.b); err != nil {
			t.Fatal(err)
		}
	}
	step()
	if n := testing.AllocsPerRun(100, step); n != 0 {
		t.Errorf("%v allocations for 4 predictions with novelty, want 0", n)
	}
	if a := l.b.Answers[0]; len(a.Preds) != 4 || a.Preds[3].NoveltyP == 0 {
		t.Errorf("%+v: the test has lost its subject", a.Preds)
	}
}

// BenchmarkNovelty compares novelty with the same bank without a detector: 64 streams
// in messages of 128 samples, a prediction per sequence, decoding included. The two
// alternate, so that both run under the same conditions; medians, also of the
// differences.
func BenchmarkNovelty(b *testing.B) { benchAnswers(b, answering{novel: true}) }

// BenchmarkAnswers measures the total cost of all optional outputs of a model and its
// job: probabilities, sets, novelty, and alarms in the same thread (normally a separate
// process); with early predictions at a quarter, half and three quarters, and without.
func BenchmarkAnswers(b *testing.B) {
	all := answering{probable: true, novel: true, alarms: true}
	b.Run("ends", func(b *testing.B) { benchAnswers(b, all) })
	all.early = true
	b.Run("early", func(b *testing.B) { benchAnswers(b, all) })
}

func benchAnswers(b *testing.B, on answering) {
	for _, length := range []int{128, 512, 2048, 8192} {
		b.Run(fmt.Sprint(length), func(b *testing.B) {
			loads := [2]func() float64{answering{}.prepareLoad(b, length), on.prepareLoad(b, length)}
			var times [2][]float64
			var more []float64
			for i := 0; b.Loop(); i++ {
				var took [2]float64
				for _, on := range []int{i % 2, 1 - i%2} {
					took[on] = loads[on]()
					times[on] = append(times[on], took[on])
				}
				more = append(more, took[1]/took[0]-1)
			}
			median := func(v []float64) float64 {
				slices.Sort(v)
				return v[len(v)/2]
			}
			b.ReportMetric(median(times[0]), "ns/sample")
			b.ReportMetric(median(times[1]), "ns/sample-on")
			b.ReportMetric(100*median(more), "%more")
			b.ReportMetric(median(more)*median(times[0])*float64(length)/1000, "us/end")
		})
	}
}

// answering selects the optional outputs of a model and its job.
type answering struct {
	probable bool // probabilities and sets
	novel    bool
	early    bool // early predictions, with their own readout
	alarms   bool
}

// newModel returns the benchmark's model, for sequences of `length` samples.
func (on answering) newModel(b *testing.B, length int) *reservoir.Model {
	spec := reservoir.DefaultBank(2).ForLength(length)
	net, err := reservoir.Draw(spec)
	if err != nil {
		b.Fatal(err)
	}
	net.Norm = reservoir.Norm{Mean: make([]float32, 2), Scale: []float32{1, 1}, Diff: []float32{1, 1}}
	rng, f := rand.New(rand.NewPCG(1, 2)), spec.FeatureCount()
	linear := func() *readout.Linear {
		return &readout.Linear{Name: "bench", Classes: []string{"a", "b", "c", "d"}, Center: make([]float32, f), Weights: pipelinetest.Noise(rng, 4*f), Intercept: make([]float32, 4)}
	}
	h := linear()
	m := &reservoir.Model{Network: net, Readouts: []*readout.Linear{h}, Policy: reservoir.Policy{Kind: reservoir.Count, Length: length}, Channels: []string{"x", "y"}}
	if on.probable {
		h.Temperature, h.Coverage = 1, &readout.Coverage{Level: .95, Least: []float64{.01, .01, .01, .01}}
	}
	if on.novel {
		h.Novelty = pipelinetest.Detector(m, detect.Dimensions)
	}
	if on.early {
		m.Policy.Early = length / 4
		h.Prefixes = &readout.Prefixes{Linear: linear(), Rule: readout.EarlyRule{Length: int64(length), Coefficients: [4]float64{1, -1, 1, -1}, Most: .1}}
		h.Prefixes.Linear.Temperature = 1
	}
	if err := m.Validate(); err != nil {
		b.Fatal(err)
	}
	return m
}

// prepareLoad makes a shard and a function that feeds one sequence of each stream and
// returns the time per sample, in ns.
func (on answering) prepareLoad(b *testing.B, length int) func() float64 {
	const streams, message = 64, 128
	m := on.newModel(b, length)
	l := newLoneOn(b, m, Config{}, func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
		return cpu.New(net, slots, cpu.Options{Threads: 1})
	})
	values := pipelinetest.Noise(rand.New(rand.NewPCG(1, 2)), 2*message)
	var jobs []Job
	for s := range streams {
		jobs = append(jobs, l.jobOf(pipelinetest.Packet{Key: fmt.Sprint("s", s), Batch: codec.Batch{Rows: message, X: values}}))
	}
	told := on.newOutput(b, m)
	return func() float64 {
		start, ends, all := time.Now(), 0, 0
		for range length / message {
			l.b.Reset()
			for _, j := range jobs {
				l.next++
				j.Msg.Seq = l.next
				if err := l.takeJob(l.b, j); err != nil {
					b.Fatal(err)
				}
			}
			if err := l.AdvanceBatch(l.b); err != nil {
				b.Fatal(err)
			}
			if preds := l.b.Answers[0].Preds; len(preds) > 0 {
				told(preds)
				all += len(preds)
				for i := range preds {
					if preds[i].Flags&outcome.FlagEarly == 0 && (preds[i].NoveltyP != 0) == on.novel {
						ends++
					}
				}
			}
		}
		took := float64(time.Since(start))
		want := streams
		if on.early {
			want *= 4
		}
		if ends != streams || all != want {
			b.Fatalf("%d predictions, %d of them at ends as they should be; want %d and %d", all, ends, want, streams)
		}
		return took / float64(streams*length)
	}
}

// newOutput returns a function that encodes predictions; with alarms, it also decodes
// and judges the message.
func (on answering) newOutput(b *testing.B, m *reservoir.Model) func([]codec.Prediction) {
	meta := codec.PredictionMeta{Readout: m.Readouts[0].Name, Labels: m.Readouts[0].Classes, Columns: 4}
	encoder, err := codec.NewPredictionEncoder(meta)
	if err != nil {
		b.Fatal(err)
	}
	fold, message := alarm.NewFold("x", 0), alarm.Message{Labels: meta.Labels}
	rules, err := alarm.ParseRules(map[string]string{"c": "class b >= 0.9, 3 of 5", "n": "novel 0.001, 3 of 5", "d": "drift score"})
	if err == nil {
		_, err = fold.ApplyFact(fold.ChangeRules(rules, "", "bench", time.Unix(1, 0)))
	}
	if err != nil {
		b.Fatal(err)
	}
	return func(p []codec.Prediction) {
		data, err := encoder.Encode(p)
		if err == nil && on.alarms {
			message.Seq++
			message.Outs += uint64(len(p))
			message.Stored = time.Unix(int64(message.Seq), 0)
			if _, message.Predictions, err = codec.DecodePredictions(data); err == nil {
				_, err = fold.JudgeMessage(&message)
			}
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
