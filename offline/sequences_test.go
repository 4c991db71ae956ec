package offline

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/testing/sequencetest"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// every is each policy, with early predictions and without.
var every = []reservoir.Policy{
	{Kind: reservoir.Marked}, {Kind: reservoir.Marked, Early: 7},
	{Kind: reservoir.Count, Length: 10}, {Kind: reservoir.Count, Length: 12, Early: 5},
	{Kind: reservoir.Gap, Gap: 5}, {Kind: reservoir.Gap, Gap: 5, Early: 4},
	{Kind: reservoir.Window, Length: 12, Hop: 12}, {Kind: reservoir.Window, Length: 12, Hop: 3}, {Kind: reservoir.Window, Length: 12, Hop: 4, Early: 5},
	{Kind: reservoir.Endless, Early: 9},
}

// strip is a stream of two channels with holes, silences, marks and labels.
type strip struct {
	values []float32
	times  []int64
	ends   []bool
	labels []int
}

func randomStrip(rng *rand.Rand) strip {
	var s strip
	now, label := int64(0), 0
	stuck := 0 // samples without a change of channel 0
	for range 20 + rng.IntN(80) {
		now += 1 + rng.Int64N(7)
		if rng.IntN(15) == 0 {
			label = rng.IntN(4) - 1
		}
		s.times, s.ends, s.labels = append(s.times, now), append(s.ends, rng.IntN(12) == 0), append(s.labels, label)
		for range 2 {
			x := float32(5 * rng.NormFloat64())
			if rng.IntN(9) == 0 {
				x = nan
			}
			s.values = append(s.values, x)
		}
		if stuck--; stuck < 0 && rng.IntN(50) == 0 {
			stuck = 10 + rng.IntN(10)
		}
		if stuck >= 0 {
			s.values[len(s.values)-2] = 4
		}
	}
	return s
}

// stripTape cuts strips into pieces at random and interleaves the pieces.
type stripTape struct {
	strips []strip
	seed   uint64
}

func (t *stripTape) word() string { return "strip" }

func (t *stripTape) policy(p reservoir.Policy) reservoir.Policy { return p }

func (t *stripTape) read(_ context.Context, yield func(*chunk) error) error {
	rng := rand.New(rand.NewPCG(t.seed, 1))
	at := make([]int, len(t.strips))
	for open := len(t.strips); open > 0; {
		n := rng.IntN(len(t.strips))
		s := t.strips[n]
		if at[n] > len(s.labels) {
			continue
		}
		from, to := at[n], min(len(s.labels), at[n]+rng.IntN(20))
		p := &chunk{stream: n, id: fmt.Sprint(n), values: slices.Clone(s.values[2*from : 2*to]), labels: s.labels[from:to], times: s.times[from:to], ends: s.ends[from:to]}
		at[n] = to
		if p.last = to == len(s.labels); p.last {
			at[n], open = to+1, open-1
		}
		err := yield(p)
		for i := range p.values { // the reader reuses a chunk
			p.values[i] = 1e9
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// whole is samples [from, to) with missing values filled by definition: by the previous value of the sequence, or of
// the stream if windows overlap, otherwise by the mean.
func (s strip) whole(from, to int, p reservoir.Policy, mean []float32) (x []float32, missing bool) {
	begin := from
	if p.Kind == reservoir.Window {
		begin = 0
	}
	for r := from; r < to; r++ {
		for c := range 2 {
			v := s.values[2*r+c]
			missing = missing || v != v
			for b := r - 1; v != v; b-- {
				if b < begin {
					v = mean[c]
				} else {
					v = s.values[2*b+c]
				}
			}
			x = append(x, v)
		}
	}
	return x, missing
}

// An evaluation makes the predictions defined by the policy, like the stage, bit for bit: every prediction, in order,
// with its flags and label, for any chunks of samples.
func TestEvaluationIsTheDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	trained, _ := retrained(t, tones(30, 0), RetrainOptions{Spec: smallBank(2)})
	total, labeled, mixed := 0, 0, 0
	flags := map[outcome.Flag]int{}
	for trial, policy := range slices.Concat(every, every, every) {
		m := *trained
		m.Policy = policy
		m.Training.Rate = []float64{0, 2.5e8, 2.5e8}[trial%3] // a sample in 4 ns
		m.Training.LongestInterval = []int64{0, 0, 6}[trial%3]
		m.Front = frontFor(policy, trial/len(every))
		sampleSource := &stripTape{seed: uint64(trial)}
		for range 6 {
			sampleSource.strips = append(sampleSource.strips, randomStrip(rng))
		}
		ev := &Evaluation{Policy: policy, Classes: m.Readouts[0].Classes}
		src := labeledData{sampleSource: sampleSource, what: "strips", channels: m.Channels}
		if err := ev.run(context.Background(), &m, src, EvaluateOptions{EngineOptions: EngineOptions{Threads: 1 + trial%3}}, nil); err != nil {
			t.Fatal(err)
		}
		got := map[string][]Prediction{}
		for _, p := range ev.Predictions {
			got[p.ID] = append(got[p.ID], p)
		}
		mixed += ev.Mixed
		for n, s := range sampleSource.strips {
			want := defined(t, &m, s, fmt.Sprint(n))
			if len(got[fmt.Sprint(n)]) != len(want) {
				t.Fatalf("policy %+v: %d predictions of a stream, want %d", policy, len(got[fmt.Sprint(n)]), len(want))
			}
			for i, w := range want {
				g := got[w.ID][i]
				if g.Position != w.Position || g.Samples != w.Samples || g.Flags != w.Flags || g.Label != w.Label || !slices.Equal(g.Scores, w.Scores) {
					t.Fatalf("policy %+v, prediction %d:\n got %+v\nwant %+v", policy, i, g, w)
				}
				total++
				for f := outcome.Flag(1); f <= outcome.FlagRate; f <<= 1 {
					if g.Flags&f != 0 {
						flags[f]++
					}
				}
				if w.Label >= 0 {
					labeled++
				}
			}
		}
	}
	if total < 1000 || labeled < 300 || mixed < 100 {
		t.Fatalf("%d predictions compared, %d with a label, %d mixed: the test has lost its subject", total, labeled, mixed)
	}
	for _, f := range []outcome.Flag{outcome.FlagHeld, outcome.FlagEarly, outcome.FlagWarmUp, outcome.FlagOutOfRange, outcome.FlagFlat, outcome.FlagLength, outcome.FlagRate} {
		if n := flags[f]; n < 10 || n == total {
			t.Errorf("flag %v on %d of %d predictions: the test has lost its subject", f, n, total)
		}
	}
}

// unlike is the flags of samples [from, to) unlike the training's, by the definition in package monitor.
func (s strip) unlike(m *reservoir.Model, from, to int) (f outcome.Flag) {
	for c, r := range m.Training.Inputs {
		run, margin := 0, (r.Max-r.Min)/2
		for i := from; i < to; i++ {
			x := s.values[2*i+c]
			if x < r.Min-margin || x > r.Max+margin {
				f |= outcome.FlagOutOfRange
			}
			switch {
			case x != x:
				run = 0
			case run > 0 && x == s.values[2*i-2+c]:
				run++
			default:
				run = 1
			}
			if run > max(8, 2*r.LongestRun) {
				f |= outcome.FlagFlat
			}
		}
	}
	return f
}

// frontFor is a front end allowed by a policy, or none.
func frontFor(p reservoir.Policy, which int) *reservoir.Front {
	f := &reservoir.Front{Fill: []float32{3, -1}}
	switch which {
	case 0:
		return nil
	case 1:
		f.Normalize, f.Envelope = 11, 2
	case 2:
		f.Center, f.Decimate = 6, 4
	}
	for f.Decimate > 0 && f.CheckParts(p) != nil {
		f.Decimate--
	}
	return f
}

// behind is the network's input from samples [from, to) by definition: the output of the front end for only the
// sequence, or for the stream if windows overlap.
func (s strip) behind(m *reservoir.Model, from, to int) []float32 {
	begin := from
	if m.Policy.Kind == reservoir.Window {
		begin = 0
	}
	x, _ := s.whole(begin, to, m.Policy, m.FirstMissing())
	x = x[:2*m.Front.Run(make([]float64, m.Front.StateSize(2)), 0, x, 2)]
	return x[2*int(m.Front.Out(int64(from-begin))):]
}

// defined is every prediction of a strip by definition, from an engine per
// prediction.
func defined(t *testing.T, m *reservoir.Model, s strip, id string) (all []Prediction) {
	spans := sequencetest.Spans(m.Policy, s.times, s.ends, false)
	for i, sp := range spans {
		e, err := cpu.New(m.Network, 1, cpu.Options{Kind: cpu.Generic})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.SetReadouts(m.Readouts); err != nil {
			t.Fatal(err)
		}
		x, missing := s.whole(sp.From, sp.To, m.Policy, m.FirstMissing())
		if m.Front != nil {
			x = s.behind(m, sp.From, sp.To)
		}
		p := Prediction{ID: id, Position: int64(sp.To), Samples: sp.To - sp.From, Label: s.labels[sp.From], Answer: outcome.Answer{Scores: make([]float32, e.ScoreWidth())}}
		if slices.ContainsFunc(s.labels[sp.From:sp.To], func(l int) bool { return l != p.Label }) {
			p.Label = -1
		}
		if missing {
			p.Flags |= outcome.FlagHeld
		}
		if !sp.End {
			p.Flags |= outcome.FlagEarly
			if m.Policy.Kind == reservoir.Window && sp.To < m.Policy.Length {
				p.Flags |= outcome.FlagWarmUp
			}
		}
		if tr := m.Training; p.Samples > 2*tr.MaxLength || sp.End && 2*p.Samples < tr.MinLength {
			p.Flags |= outcome.FlagLength
		}
		p.Flags |= s.unlike(m, sp.From, sp.To)
		if m.Training.Rate > 0 && sequencetest.OffRate(m.Training, .05, sequencetest.IntervalTimes(m.Policy, spans, i, s.times)) {
			p.Flags |= outcome.FlagRate
		}
		if err := e.Advance(x, []reservoir.Run{{Reset: true, Emit: true, To: int32(len(x) / 2)}}, p.Scores); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

// humming is series of several lengths that a window of 20 distinguishes.
func humming() *archive.Dataset { return tones(60, 60) }

// A model learns from the sequences cut by its policy, reports their lengths, and is right about similar sequences.
func TestRetrainCutsAsThePolicy(t *testing.T) {
	d := humming()
	series, samples := 0, int64(0)
	var windows, counts, early int
	for _, i := range d.Part(archive.Train) {
		n := d.Len(i)
		series++
		samples += int64(n)
		windows += (n-20)/10 + 1
		counts += n / 20
		early += n / 15
	}
	for _, c := range []struct {
		policy    reservoir.Policy
		sequences int
		min, max  int64
		least     float64
	}{
		{reservoir.Policy{Kind: reservoir.Marked}, series, 20, 60, .8},
		{reservoir.Policy{Kind: reservoir.Gap, Gap: time.Second}, series, 20, 60, .8},
		{reservoir.Policy{Kind: reservoir.Window, Length: 20, Hop: 10}, windows, 20, 20, .8},
		{reservoir.Policy{Kind: reservoir.Count, Length: 20}, counts, 20, 20, .8},
		{reservoir.Policy{Kind: reservoir.Endless, Early: 15}, early, 15, 60, .8},
	} {
		var planned RetrainReport
		m, r := retrained(t, d, RetrainOptions{Spec: smallBank(2), Policy: c.policy, Planned: func(r RetrainReport) { planned = r }})
		if r.Series != series || r.Samples != samples || r.Sequences != c.sequences || r.Groups != series || r.MinLength != c.min || r.MaxLength != c.max ||
			planned.Sequences != r.Sequences || planned.Groups != r.Groups {
			t.Errorf("%+v: report %+v, planned %+v; want %d series with %d sequences of %d to %d samples", c.policy, r, planned, series, c.sequences, c.min, c.max)
		}
		if m.Training.MinLength != int(c.min) || m.Training.MaxLength != int(c.max) {
			t.Errorf("%+v: the model says it learned from %d to %d samples", c.policy, m.Training.MinLength, m.Training.MaxLength)
		}
		if err := m.CheckLengths(); err != nil {
			t.Error(err)
		}
		ev := evaluated(t, m, d, EvaluateOptions{})
		t.Logf("%+v: accuracy %.3f of %d sequences", c.policy, ev.Accuracy, ev.Sequences)
		if ev.Accuracy < c.least || ev.Sequences != ev.Labeled || ev.Sequences < ev.Series {
			t.Errorf("%+v: accuracy %.3f of %d sequences of %d series, want at least %.2f", c.policy, ev.Accuracy, ev.Sequences, ev.Series, c.least)
		}
	}
}

// A policy without any sequence to learn from, or to predict, gives the reason.
func TestPoliciesThatCutNothing(t *testing.T) {
	d := tones(30, 30)
	marked, _ := retrained(t, d, RetrainOptions{Spec: smallBank(2)})
	for _, c := range []struct {
		policy reservoir.Policy
		want   string
	}{
		{reservoir.Policy{Kind: reservoir.Window, Length: 100, Hop: 50}, "window of 100 every 50 cuts no sequence, the longest of 30 streams has "},
		{reservoir.Policy{Kind: reservoir.Count, Length: 61}, "count of 61 cuts no sequence, the longest of 30 streams has "},
		{reservoir.Policy{Kind: reservoir.Endless, Early: 100}, "endless, early 100 predicts nowhere"},
	} {
		_, _, err := Retrain(context.Background(), d, RetrainOptions{Spec: smallBank(2), Policy: c.policy}, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("retrain with %+v: %v, want %q", c.policy, err, c.want)
		}
		m := *marked
		m.Policy = c.policy
		if _, err := Evaluate(context.Background(), &m, d, EvaluateOptions{}, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("evaluate with %+v: %v, want %q", c.policy, err, c.want)
		}
	}
}

// record writes series as a recording, each as a stream, samples of several
// streams mixed in rounds of some rows; marks at their ends if asked for.
func record(t *testing.T, d *archive.Dataset, split archive.Split, marks bool) string {
	t.Helper()
	c := &archive.RecordingChunk{}
	k := len(d.Channels)
	for _, i := range d.Part(split) {
		s, n := &d.Series[i], d.Len(i)
		for r := range n {
			c.Stream, c.Seq, c.Time = append(c.Stream, s.ID), append(c.Seq, int64(r+1)), append(c.Time, archive.NoTime)
			c.Values = append(c.Values, s.Values[r*k:(r+1)*k]...)
			c.End, c.Label = append(c.End, marks && r == n-1), append(c.Label, d.Classes[s.Label])
		}
	}
	path := filepath.Join(t.TempDir(), string(split)+".parquet")
	saveRecording(t, path, archive.RecordingInfo{Name: d.Name, Channels: d.Channels}, c)
	return path
}

// A recording of streams with one label each gives the same model and the same predictions as a data set of the same
// series, bit for bit.
func TestRecordingIsTheDataSet(t *testing.T) {
	d := tones(45, 30)
	for i := range d.Series {
		d.Series[i].Values[4] = nan
	}
	train, test := record(t, d, archive.Train, true), record(t, d, archive.Test, true)
	ctx := context.Background()
	for _, p := range []reservoir.Policy{
		{Kind: reservoir.Marked, Early: 8}, {Kind: reservoir.Window, Length: 16, Hop: 8}, {Kind: reservoir.Count, Length: 16}, {Kind: reservoir.Endless, Early: 15},
	} {
		opt := RetrainOptions{Spec: smallBank(2), Policy: p}
		a, ra := retrained(t, d, opt)
		b, rb, err := retrainRecording(ctx, train, opt, nil)
		if err != nil {
			t.Fatal(err)
		}
		if ra.Sequences != rb.Sequences || ra.Groups != rb.Groups || ra.Missing != rb.Missing || ra.Unused != rb.Unused {
			t.Errorf("%+v: a recording gives %+v, the data set %+v", p, rb, ra)
		}
		b.Training.Fingerprint = a.Training.Fingerprint // of the file
		if fingerprint(t, a) != fingerprint(t, b) {
			t.Errorf("%+v: a recording gives another model", p)
		}
		want := evaluated(t, a, d, EvaluateOptions{})
		got, err := evaluateRecording(ctx, a, test, EvaluateOptions{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got.Accuracy != want.Accuracy || got.Sequences != want.Sequences || len(got.Predictions) != len(want.Predictions) || len(want.Predictions) < 30 {
			t.Errorf("%+v: accuracy %g of %d, want %g of %d", p, got.Accuracy, got.Sequences, want.Accuracy, want.Sequences)
		}
		for i, w := range want.Predictions {
			if g := got.Predictions[i]; g.ID != w.ID || g.Position != w.Position || g.Label != w.Label || !slices.Equal(g.Scores, w.Scores) {
				t.Fatalf("%+v, prediction %d: %+v, want %+v", p, i, g, w)
			}
		}
	}
}

// Labeled intervals of continuous streams: a window within an interval counts for the interval, a window across a
// border is left out and counted.
func TestRecordingOfIntervals(t *testing.T) {
	path := intervals(t, 6)
	ctx := context.Background()
	p := reservoir.Policy{Kind: reservoir.Window, Length: 20, Hop: 10}
	m, r, err := retrainRecording(ctx, path, RetrainOptions{Spec: smallBank(1), Policy: p}, nil)
	if err != nil {
		t.Fatal(err)
	}
	// Per stream 300 samples: 100 low, 105 high, 50 unknown, 45 low.
	if r.Series != 6 || r.Samples != 1800 || r.Sequences != 6*(9+9+3) || r.Mixed != 6*(1+2+2) || r.Unlabeled != 6*3 || r.Groups != 18 || len(r.Divided) > 0 {
		t.Errorf("report %+v", r)
	}
	ev, err := evaluateRecording(ctx, m, path, EvaluateOptions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if ev.Sequences != 6*29 || ev.Labeled != 6*21 || ev.Mixed != r.Mixed || ev.Accuracy < .95 {
		t.Errorf("evaluation: %+v", ev)
	}
	// One stream: high has one interval, which is divided.
	_, r, err = retrainRecording(ctx, intervals(t, 1), RetrainOptions{Spec: smallBank(1), Policy: p}, nil)
	if err != nil || !slices.Equal(r.Divided, []string{"high"}) || r.Groups != 2+blocks {
		t.Errorf("one stream: %+v, %v", r, err)
	}
}

// intervals is a recording of streams with labeled intervals.
func intervals(t *testing.T, streams int) string {
	rng := rand.New(rand.NewPCG(8, 8))
	c := &archive.RecordingChunk{}
	for r := range 300 {
		label, step := "low", 0.2
		switch {
		case r >= 100 && r < 205:
			label, step = "high", 1.6
		case r >= 205 && r < 255:
			label = ""
		}
		for n := range streams {
			c.Stream, c.Seq, c.Time = append(c.Stream, fmt.Sprint("m", n)), append(c.Seq, int64(r+1)), append(c.Time, archive.NoTime)
			c.Values = append(c.Values, sineOf(float64(n)+step*float64(r))+float32(0.1*rng.NormFloat64()))
			c.End, c.Label = append(c.End, false), append(c.Label, label)
		}
	}
	path := filepath.Join(t.TempDir(), "intervals.parquet")
	saveRecording(t, path, archive.RecordingInfo{Name: "intervals", Channels: []string{"x"}}, c)
	return path
}

func sineOf(radians float64) float32 { return float32(math.Sin(radians)) }

func TestRecordingRefusesToTeach(t *testing.T) {
	ctx := context.Background()
	write := func(change func(*archive.RecordingChunk)) string {
		c := someSamples(30)
		for i := range c.Values {
			c.Values[i] = float32(i % 7)
		}
		change(c)
		path := filepath.Join(t.TempDir(), "r.parquet")
		saveRecording(t, path, twoChannels, c)
		return path
	}
	for want, c := range map[string]struct {
		policy reservoir.Policy
		change func(*archive.RecordingChunk)
	}{
		"has no labels: a CSV recording has them in a column label":            {reservoir.Policy{}, func(c *archive.RecordingChunk) { clear(c.Label) }},
		"has the one class \"ok\"":                                             {reservoir.Policy{}, func(c *archive.RecordingChunk) { fillWith(c.Label, "ok") }},
		"no sequence of its 3 streams ends: the policy marked wants end marks": {reservoir.Policy{Kind: reservoir.Marked}, func(c *archive.RecordingChunk) { clear(c.End) }},
		"sample 0 has no time: the policy closes sequences by silence":         {reservoir.Policy{Kind: reservoir.Gap, Gap: time.Second}, func(*archive.RecordingChunk) {}},
		"count of 2 cuts has samples of several labels": {reservoir.Policy{Kind: reservoir.Count, Length: 2}, func(c *archive.RecordingChunk) {
			for i := range c.Label {
				c.Label[i] = []string{"a", "b"}[i/3%2]
			}
		}},
	} {
		_, _, err := retrainRecording(ctx, write(c.change), RetrainOptions{Spec: smallBank(2), Policy: c.policy}, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func fillWith(s []string, x string) {
	for i := range s {
		s[i] = x
	}
}
