package watch_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/watch"
)

// TestDriftUnderKills kills processes while the inputs of one of two streams drift: the log has the
// same events as without kills, each once, and the events name the channel.
func TestDriftUnderKills(t *testing.T) {
	r := newRig(t, -1)
	rules, err := alarm.ParseRules(map[string]string{"inputs": "drift inputs, clear after 20", "fleet": `drift inputs level, by "()"`})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	outs := uint64(0)
	more := func(messages int, level float32) {
		for range messages {
			var m alarm.Message
			for i := range 50 {
				outs++
				p := codec.Prediction{Stream: fmt.Sprint("s", i%2), Seq: outs, Time: codec.NoTime}
				for range 6 { // two channels
					p.Inputs = append(p.Inputs, float32(rng.NormFloat64()))
				}
				if i%2 == 1 {
					p.Inputs[3] += level
				}
				m.Predictions = append(m.Predictions, p)
			}
			m.Outs = outs
			r.publishOutput(m)
		}
	}
	run := func(kill bool) {
		p := r.startProcess(watch.Options{Rules: rules, Since: time.Unix(1, 0), Save: 1})
		if kill {
			r.waitFor("some to be judged", func() bool { return r.savedPosition() > 0 })
			p.kill()
			return
		}
		r.waitFor("all to be judged", func() bool { return r.savedPosition() >= r.sent[len(r.sent)-1].Seq })
		r.stopProcess(p)
	}
	more(44, 0)
	run(true)
	run(false)
	more(1, 1) // 25 predictions of each stream: too few for a decision
	run(true)
	more(8, 1)
	run(true)
	run(false)

	got := r.readEvents()
	f := alarm.NewFold("x", 0)
	if _, err := f.ApplyFact(f.ChangeRules(rules, "", "", time.Time{})); err != nil {
		t.Fatal(err)
	}
	var want []alarm.Event
	for _, m := range r.sent {
		events, err := f.JudgeMessage(&m)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, events...)
	}
	if got = got[1:]; len(got) != len(want) || len(want) < 3 {
		t.Fatalf("%d events, want %d: %+v\n%+v", len(got), len(want), got, want)
	}
	found := false
	for i, w := range want {
		if g := got[i]; g.Number != w.Number || g.Kind != w.Kind || g.Rule != w.Rule || g.Key != w.Key || g.Change != w.Change || g.Position != w.Position {
			t.Errorf("event %d: %+v, want %+v", i, g, w)
		}
		found = found || w.Rule == "inputs" && w.Key == "s1" && w.Change == "channel 1 level up"
	}
	if !found {
		t.Errorf("the level of channel 1 was not found: %+v", want)
	}
}
