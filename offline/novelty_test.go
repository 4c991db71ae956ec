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

	"github.com/eusn-stream/eusn-stream/internal/detect"
	"github.com/eusn-stream/eusn-stream/internal/offline/bridge"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/readout/novelty"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/classify"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// A model of only healthy machines finds new faults, raises about the requested number of false alarms, and gives the
// same results after storing, on another engine and on other threads.
func TestHealthyOnly(t *testing.T) {
	d := simulated(t, 5, 480, 240) // 120 and 60 healthy series
	m, r := retrained(t, d, RetrainOptions{Spec: tinyBank(3), Novelty: &NoveltyOptions{HealthyOnly: true, Healthy: "healthy", Level: .02, Inputs: true}})
	if l := m.Readouts[0]; !slices.Equal(l.Classes, []string{"healthy", "novel"}) || !l.Detects || l.Novelty == nil {
		t.Fatalf("readout of classes %q, detects %v", l.Classes, l.Detects)
	}
	if n := r.Novelty; n == nil || n.Sequences != 120 || n.Groups != 120 || n.Dimensions != detect.Dimensions || n.Level != .02 {
		t.Errorf("report %+v", n)
	}
	ev := evaluated(t, m, d, EvaluateOptions{})
	n := ev.Novelty
	// 60 at .02: more than 6 has a probability below 1e-3, and the seed is fixed
	if n.Known != 60 || n.Unknown != 180 || n.FalseAlarms > 6 || n.Found < 90 || n.AUROC == nil || *n.AUROC < .9 || n.Novel != n.FalseAlarms+n.Found {
		t.Errorf("found %+v, AUROC %v", n, *n.AUROC)
	}
	if ev.Confusion[0][1] != n.FalseAlarms || ev.Confusion[1][1] != n.Found || ev.Labeled != 240 {
		t.Errorf("confusion %v beside %+v", ev.Confusion, n)
	}
	path := filepath.Join(t.TempDir(), "m.safetensors")
	if err := m.Save(path); err != nil {
		t.Fatal(err)
	}
	stored, err := reservoir.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	again := evaluated(t, stored, d, EvaluateOptions{EngineOptions: EngineOptions{Threads: 3, NewEngine: func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
		return cpu.New(net, slots, cpu.Options{Kind: cpu.Generic})
	}}})
	for i, p := range ev.Predictions {
		q := again.Predictions[i]
		if !slices.Equal(p.Inputs, q.Inputs) || len(p.Inputs) != len(d.Channels)*novelty.InputsOf {
			t.Fatalf("%s: inputs %v; from its file, on the plain engine: %v", p.ID, p.Inputs, q.Inputs)
		}
		if math.Float32bits(p.Novelty) != math.Float32bits(q.Novelty) || p.NoveltyP != q.NoveltyP || p.Class != q.Class || math.Float32bits(p.Scores[0]) != math.Float32bits(q.Scores[0]) {
			t.Fatalf("%s: %v, p %v, class %d; from its file, on the plain engine: %v, %v, %d", p.ID, p.Novelty, p.NoveltyP, p.Class, q.Novelty, q.NoveltyP, q.Class)
		}
		if novel := p.NoveltyP <= .02; novel != (p.Class == 1) {
			t.Fatalf("%s: class %d at p %v", p.ID, p.Class, p.NoveltyP)
		}
	}
	stream, err := classify.NewStream(stored)
	if err != nil {
		t.Fatal(err)
	}
	test := d.Part(archive.Test)
	for i, p := range ev.Predictions[:5] {
		stream.Reset()
		if err := stream.Step(d.Series[test[i]].Values...); err != nil {
			t.Fatal(err)
		}
		class, _ := stream.Classify()
		if score, q := stream.Novelty(); math.Float32bits(score) != math.Float32bits(p.Novelty) || q != p.NoveltyP || class != ev.Classes[p.Class] {
			t.Errorf("%s as a stream: %v, p %v, class %s; evaluated: %v, %v, %d", p.ID, score, q, class, p.Novelty, p.NoveltyP, p.Class)
		}
	}
	strange := bridge.Sequences{Classes: m.Readouts[0].Classes, Sequences: []bridge.Sequence{{Class: 1}}, Features: func(_ int, row []float32) error {
		for j := range row {
			row[j] = 1e6
		}
		return nil
	}}
	if right, err := strange.Test(m, []int{0}); err != nil || right != 1 {
		t.Errorf("features that no sequence has: %d right, want 1, %v", right, err)
	}
}

// A detector changes nothing in its readout. Classes outside the training are counted as novel, not as wrong; without
// a detector such classes are refused.
func TestNoveltyBesideClasses(t *testing.T) {
	d := simulated(t, 6, 240, 120)
	part := *d
	part.Series = slices.Clone(d.Series)
	for i := range part.Series {
		if s := &part.Series[i]; s.Split == archive.Train && d.Classes[s.Label] == "imbalance" {
			s.Label = -1
		}
	}
	part.Classes = nil
	for _, c := range d.Classes {
		if c != "imbalance" {
			part.Classes = append(part.Classes, c)
		}
	}
	for i := range part.Series {
		if s := &part.Series[i]; s.Label >= 0 && d.Classes[s.Label] == "imbalance" {
			s.Label = -1
		} else if s.Label >= 0 {
			s.Label = slices.Index(part.Classes, d.Classes[s.Label])
		}
	}
	opt := RetrainOptions{Spec: tinyBank(3)}
	plain, _ := retrained(t, &part, opt)
	opt.Novelty = &NoveltyOptions{}
	m, r := retrained(t, &part, opt)
	if r.Novelty.Sequences != 180 || r.Novelty.Level != detect.DefaultLevel {
		t.Errorf("report %+v", r.Novelty)
	}
	if a, b := plain.Readouts[0], m.Readouts[0]; !slices.Equal(a.Weights, b.Weights) || !slices.Equal(a.Intercept, b.Intercept) || a.Temperature != b.Temperature {
		t.Error("the detector changed the readout")
	}
	if _, err := Evaluate(context.Background(), plain, d, EvaluateOptions{}, nil); err == nil || !strings.Contains(err.Error(), `class "imbalance"`) {
		t.Errorf("without a detector: %v", err)
	}
	ev := evaluated(t, m, d, EvaluateOptions{})
	if n := ev.Novelty; ev.Labeled != 90 || n.Known != 90 || n.Unknown != 30 || n.AUROC == nil || *n.AUROC < .8 {
		t.Errorf("%d labeled, novelty %+v", ev.Labeled, n)
	}
}

// Early predictions do not cover a whole sequence, and have no novelty. The novelty at ends does not depend on early
// predictions.
func TestNoveltyAtEnds(t *testing.T) {
	d := simulated(t, 6, 120, 40)
	var ends [2][]float32
	for i, early := range []int{0, 100} {
		m, _ := retrained(t, d, RetrainOptions{Spec: tinyBank(3), Policy: reservoir.Policy{Kind: reservoir.Marked, Early: early}, Novelty: &NoveltyOptions{Level: .05}})
		ev := evaluated(t, m, d, EvaluateOptions{})
		for _, p := range ev.Predictions {
			switch {
			case !p.Early():
				ends[i] = append(ends[i], p.Novelty, p.NoveltyP)
			case p.Novelty != 0 || p.NoveltyP != 0:
				t.Errorf("%s, an early prediction: novelty %v, p %v", p.ID, p.Novelty, p.NoveltyP)
			}
		}
		if many := len(ev.Predictions) > 2*40; many != (early > 0) {
			t.Errorf("early every %d: %d predictions", early, len(ev.Predictions))
		}
	}
	if len(ends[0]) != 2*40 || slices.Contains(ends[0], 0) || !slices.Equal(ends[0], ends[1]) {
		t.Errorf("novelty at ends: %v, beside early predictions %v", ends[0], ends[1])
	}
}

// Without a healthy class, all of a recording is healthy, with a label or without.
func TestHealthyWithoutLabels(t *testing.T) {
	d := tones(24, 0)
	for i := range d.Series {
		d.Series[i].Label = -1
	}
	d.Classes = nil
	m, r := retrained(t, d, RetrainOptions{Spec: tinyBank(2), Novelty: &NoveltyOptions{HealthyOnly: true, Level: .1}})
	if !slices.Equal(m.Readouts[0].Classes, []string{normalClass, novelClass}) || r.Sequences != 24 || r.Unlabeled != 0 {
		t.Errorf("classes %q of %d sequences, %d without a label", m.Readouts[0].Classes, r.Sequences, r.Unlabeled)
	}
	ev := evaluated(t, m, d, EvaluateOptions{Split: archive.Train})
	if n := ev.Novelty; n.Novel > 2 || n.Known != 0 || n.AUROC != nil { // on the training part
		t.Errorf("%+v", n)
	}
}

// A detector of healthy windows adds running means over a fifth and four fifths of a window, on any number of threads:
// it finds channels that no longer agree. Other policies have no means.
func TestHealthyMeans(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	d := &archive.Dataset{Name: "pairs", Channels: []string{"a", "b", "constant"}, Classes: []string{"healthy", "fault"}}
	for k := range 48 {
		s, level := archive.Series{Split: archive.Train, ID: fmt.Sprint("s", k)}, 0.
		if k >= 24 {
			s.Split, s.Label = archive.Test, k%2
		}
		for range 120 {
			level = .95*level + .3*rng.NormFloat64()
			other := level * float64(1-2*s.Label)
			s.Values = append(s.Values, float32(level+.5*rng.NormFloat64()), float32(other+.5*rng.NormFloat64()), 3)
		}
		d.Series = append(d.Series, s)
	}
	opt := RetrainOptions{Spec: tinyBank(3), Policy: reservoir.Policy{Kind: reservoir.Window, Length: 20, Hop: 10}, Novelty: &NoveltyOptions{HealthyOnly: true, Healthy: "healthy", Level: .05}}
	m, _ := retrained(t, d, opt)
	means := m.Readouts[0].Novelty.Means
	if m.Front == nil || !slices.Equal(m.Front.Means, []int{4, 16}) || means == nil {
		t.Fatalf("front end %+v, means %v", m.Front, means)
	}
	for i, v := range means.Axes { // the third channel has the last two of six statistics
		if i%6 > 3 && v != 0 {
			t.Fatalf("statistic %d of a constant channel has the weight %v", i%6, v)
		}
	}
	with := evaluated(t, m, d, EvaluateOptions{EngineOptions: EngineOptions{Threads: 1}})
	again := evaluated(t, m, d, EvaluateOptions{EngineOptions: EngineOptions{Threads: 3}})
	// 132 at .05: more than 16 has a probability below 1e-3 if windows are independent
	if n := with.Novelty; n.Known != 132 || n.Unknown != 132 || n.FalseAlarms > 16 || n.Found < 100 {
		t.Errorf("found %+v", n)
	}
	plain := *m.Readouts[0].Novelty
	plain.Means = nil
	m.Readouts[0].Novelty = &plain
	without := evaluated(t, m, d, EvaluateOptions{})
	for i, p := range with.Predictions {
		if q := without.Predictions[i]; p.Novelty != again.Predictions[i].Novelty || !(p.Novelty > q.Novelty) || p.Novelty > q.Novelty+1e3 {
			t.Fatalf("%s: novelty %v, on other threads %v, without means %v", p.ID, p.Novelty, again.Predictions[i].Novelty, q.Novelty)
		}
	}
	opt.Policy = reservoir.Policy{Kind: reservoir.Count, Length: 20}
	if m, _ := retrained(t, d, opt); m.Front != nil || m.Readouts[0].Novelty.Means != nil {
		t.Error("separate sequences have means")
	}
}

// Impossible promises are refused before the work, with the requirement.
func TestNoveltyRefused(t *testing.T) {
	d := tones(30, 0)
	healthy := func(o NoveltyOptions) NoveltyOptions { o.HealthyOnly, o.Healthy = true, d.Classes[0]; return o }
	window := reservoir.Policy{Kind: reservoir.Count, Length: 20}
	for _, c := range []struct {
		o      NoveltyOptions
		policy reservoir.Policy
		rate   float64
		want   string
	}{
		{NoveltyOptions{HealthyOnly: true}, reservoir.Policy{}, 0, "say which is the healthy one"},
		{NoveltyOptions{HealthyOnly: true, Healthy: "none"}, reservoir.Policy{}, 0, `has no class "none"`},
		{healthy(NoveltyOptions{Level: .001}), reservoir.Policy{}, 0, "needs at least 999 training sequences"},
		{healthy(NoveltyOptions{AlarmsPerDay: 1}), reservoir.Policy{}, 100, "how many predictions a day"},
		{healthy(NoveltyOptions{AlarmsPerDay: 1. / 30}), window, 100, // a length of 20 samples at 100 Hz
			"0.03333 false alarms a day, of 432000 predictions a day, is a share of 7.72e-08"},
		{healthy(NoveltyOptions{AlarmsPerDay: 1. / 30, PerDay: 24}), window, 0, "needs at least 719 training sequences"},
		{healthy(NoveltyOptions{AlarmsPerDay: 24, PerDay: 24}), window, 0, "less than one for each prediction"},
	} {
		_, _, err := Retrain(context.Background(), d, RetrainOptions{Spec: tinyBank(2), Policy: c.policy, Rate: c.rate, Novelty: &c.o}, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.o, err, c.want)
		}
	}
	opt := RetrainOptions{Spec: tinyBank(2), Novelty: &NoveltyOptions{}}
	if _, err := RetrainShard(context.Background(), d, opt, Shard{1, 2}, filepath.Join(t.TempDir(), "s"), nil); err == nil || !strings.Contains(err.Error(), "train in one job") {
		t.Errorf("a shard: %v", err)
	}
}

// Of more sequences than are kept, whole groups are drawn, always the same.
func TestKeeper(t *testing.T) {
	groups := make([]int, 3*detect.Most)
	for i := range groups {
		groups[i] = i / 100
	}
	k, again := newKeeper(1, groups), newKeeper(1, groups)
	if !slices.Equal(k.of, again.of) || len(k.groups) > detect.Most || len(k.groups) < detect.Most-100 {
		t.Fatalf("%d kept", len(k.groups))
	}
	features := make([]float32, len(groups))
	whole := map[int]int{}
	for i := range features {
		features[i] = float32(groups[i])
		if k.of[i] >= 0 {
			whole[groups[i]]++
		}
	}
	k.add(features[:1000])
	k.add(features[1000:])
	for i, g := range k.groups {
		if k.x[i] != float32(g) {
			t.Fatalf("place %d of group %d has features of group %v", i, g, k.x[i])
		}
	}
	for g, n := range whole {
		if n != 100 && g != groups[len(groups)-1] {
			t.Errorf("%d of 100 sequences of group %d are kept", n, g)
		}
	}
}
