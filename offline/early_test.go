package offline

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/early"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// A model that decides early equals the model without early decisions, except for the readout of prefixes, and its
// predictions follow the rule on their scores, also from its file and on the plain engine.
func TestDecideEarly(t *testing.T) {
	d := simulated(t, 5, 120, 80) // of 320 samples
	p := reservoir.Policy{Kind: reservoir.Marked, Early: 40}
	m, r := retrained(t, d, RetrainOptions{Spec: tinyBank(3), Policy: p, Early: &EarlyOptions{Loss: .05}})
	plain, _ := retrained(t, d, RetrainOptions{Spec: tinyBank(3), Policy: p})
	without := *m
	head := *m.Readouts[0]
	head.Prefixes, without.Readouts = nil, []*readout.Linear{&head}
	if fingerprint(t, &without) != fingerprint(t, plain) {
		t.Error("without the readout of prefixes the model is another one")
	}
	if r.Sequences != 120 || r.Early.Prefixes != 7*120 || r.Groups != 120 || r.Early.Sequences != 120 || r.Early.Loss != .05 || r.Early.Accuracy < r.Early.Whole-.05-1e-9 {
		t.Errorf("%d sequences, %d prefixes, %d groups, %+v", r.Sequences, r.Early.Prefixes, r.Groups, r.Early)
	}
	ev := evaluated(t, m, d, EvaluateOptions{})
	rule, linear := m.Readouts[0].Prefixes.Rule, m.Readouts[0].Prefixes.Linear
	var want early.Report
	decided := map[string]*Prediction{}
	for i := range ev.Predictions {
		q := &ev.Predictions[i]
		if !q.Early() {
			at := decided[q.ID]
			if at == nil {
				at = q
			} else {
				want.Decided += 1. / 80
			}
			if int(at.Class) == q.Label {
				want.Accuracy += 1. / 80
			}
			want.Earliness += float64(at.Samples) / 320 / 80
			if q.Change != 0 || q.Flags&outcome.FlagDecided != 0 {
				t.Fatalf("%s: a prediction at an end has a change of %v and flags %q", q.ID, q.Change, q.Flags)
			}
			continue
		}
		var top, second float64 = math.Inf(-1), math.Inf(-1)
		for _, s := range q.Scores {
			if x := float64(s); x > top {
				top, second = x, top
			} else {
				second = max(second, x)
			}
		}
		c, time, margin := rule.Coefficients, float64(q.Samples)/320, linear.Temperature*(top-second)
		change := 1 / (1 + math.Exp(c[0]+c[1]*time+c[2]*margin+c[3]*margin*time))
		if math.Abs(change-float64(q.Change)) > 1e-6 { // a float32's rounding
			t.Fatalf("%s after %d samples: change %v, want %v", q.ID, q.Samples, q.Change, change)
		}
		if is := q.Flags&outcome.FlagDecided != 0; is != (q.Change <= rule.Most) {
			t.Fatalf("%s after %d samples: decided %v at %v", q.ID, q.Samples, is, q.Change)
		} else if is && decided[q.ID] == nil {
			decided[q.ID] = q
		}
	}
	if g := ev.Early.Decided; g == nil || g.Sequences != 80 || math.Abs(g.Accuracy-want.Accuracy)+math.Abs(g.Earliness-want.Earliness)+math.Abs(g.Decided-want.Decided) > 1e-9 {
		t.Errorf("evaluate says %+v, want %+v", ev.Early.Decided, want)
	}
	if want.Decided == 0 || want.Decided == 1 && want.Earliness < .2 {
		t.Errorf("%+v: want some decided early, not all at once", want)
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
		if q := again.Predictions[i]; p.Change != q.Change || p.Flags != q.Flags {
			t.Fatalf("%s after %d samples: change %v, flags %q; from its file %v, %q", p.ID, p.Samples, p.Change, p.Flags, q.Change, q.Flags)
		}
	}
}

func TestDecideEarlyRefuses(t *testing.T) {
	d := simulated(t, 6, 24, 8)
	marked := func(n int) reservoir.Policy { return reservoir.Policy{Kind: reservoir.Marked, Early: n} }
	for _, c := range []struct {
		policy reservoir.Policy
		loss   float64
		more   func(*RetrainOptions)
		want   string
	}{
		{reservoir.Policy{Kind: reservoir.Endless, Early: 40}, .01, nil, "no end"},
		{reservoir.Policy{Kind: reservoir.Window, Length: 80, Hop: 40, Early: 20}, .01, nil, "a window predicts every 40 samples"},
		{marked(0), .01, nil, "--early N"},
		{marked(40), 0, nil, "above 0"},
		{marked(40), math.NaN(), nil, "above 0"},
		{marked(400), .01, nil, "no sequence has a prefix of 400 samples"}, // series too short
		{marked(40), .01, func(o *RetrainOptions) { o.Novelty = &NoveltyOptions{HealthyOnly: true, Healthy: d.Classes[0]} }, "predict at ends"},
	} {
		o := RetrainOptions{Spec: tinyBank(3), Policy: c.policy, Early: &EarlyOptions{Loss: c.loss}}
		if c.more != nil {
			c.more(&o)
		}
		if _, _, err := Retrain(t.Context(), d, o, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v, loss %v: %v, want %q", c.policy, c.loss, err, c.want)
		}
	}
	one := *d
	one.Classes, one.Series = []string{"only"}, slices.Clone(d.Series)
	for i := range one.Series {
		one.Series[i].Label = 0
	}
	if _, _, err := Retrain(t.Context(), &one, RetrainOptions{Spec: tinyBank(3), Policy: marked(40), Early: &EarlyOptions{Loss: .01}}, nil); err == nil || !strings.Contains(err.Error(), "one class") {
		t.Errorf("one class: %v", err)
	}
}
