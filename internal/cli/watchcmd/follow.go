package watchcmd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/cli/live"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// opener connects to the server of the stage.
type opener = func(ctx context.Context, name string) (*nats.Conn, jetstream.JetStream, error)

// runStage runs the stage, and reports verdicts and alarms. feed (nil: none) sends samples.
func (w *watcher) runStage(ctx context.Context, s *saved, feed func(ctx context.Context, open opener)) error {
	f := &follower{w: w, job: s.conf.Job, classes: s.model.Readouts[0].Classes, verdicts: map[string]verdict{}}
	return live.RunStage(ctx, w.app, s.conf, func(ctx context.Context, open func(ctx context.Context, name string) (*nats.Conn, jetstream.JetStream, error)) {
		var parts sync.WaitGroup
		defer parts.Wait()
		parts.Go(func() { f.follow(ctx, open) })
		if feed != nil {
			parts.Go(func() { feed(ctx, open) })
		}
	})
}

// verdict is the newest verdict about a machine.
type verdict struct{ class int }

// follower reports the verdicts and alarms of a running stage.
type follower struct {
	w       *watcher
	job     string
	classes []string

	mu       sync.Mutex
	verdicts map[string]verdict
	said     string
}

// follow reads predictions and alarms until ctx ends.
func (f *follower) follow(ctx context.Context, open opener) {
	nc, js, err := open(ctx, "eusn-stream/"+f.job+"/watch")
	if err != nil {
		return
	}
	defer nc.Close()
	sub, err := nc.Subscribe(wire.AlarmSubjects(f.job), f.takeAlarm)
	if err == nil {
		defer sub.Unsubscribe()
	}
	var reports sync.WaitGroup
	defer reports.Wait()
	reports.Go(func() { f.reportEvery(ctx) })
	_, last, err := consumer.Kept(ctx, js, f.job)
	if err != nil {
		last = 0
	}
	if err := consumer.Predictions(ctx, js, f.job, last+1, f.takeOutput); err != nil && ctx.Err() == nil {
		f.w.out.say("verdicts are not read: %v", err)
	}
}

// takeOutput takes predictions.
func (f *follower) takeOutput(o consumer.Output) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range o.Predictions {
		p := &o.Predictions[i]
		if p.Class < 0 || int(p.Class) >= len(f.classes) {
			continue
		}
		if len(f.verdicts) == 0 {
			f.w.out.say("first verdict after %.0f s: %s is %s", time.Since(f.w.begin).Seconds(), p.Stream, f.classes[p.Class])
			f.w.out.event("verdict", map[string]any{"stream": p.Stream, "class": f.classes[p.Class]})
		}
		f.verdicts[p.Stream] = verdict{int(p.Class)}
	}
	return nil
}

// takeAlarm reports an event of the alarms.
func (f *follower) takeAlarm(m *nats.Msg) {
	var e struct{ Event, Rule, Key string }
	if json.Unmarshal(m.Data, &e) != nil || e.Rule == "" {
		return
	}
	f.w.out.event("alarm", map[string]any{"alarm": json.RawMessage(m.Data)})
	if !f.w.app.JSON {
		f.w.out.say("alarm %s: %s of %s", e.Event, e.Rule, e.Key)
	}
}

// reportEvery reports the counts of the verdicts if they have changed.
func (f *follower) reportEvery(ctx context.Context) {
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if text := f.counts(); text != f.said {
			f.said = text
			f.w.out.say("%s", text)
		}
	}
}

// counts describes the newest verdicts.
func (f *follower) counts() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.verdicts) == 0 {
		return ""
	}
	of := make([][]string, len(f.classes))
	for name, v := range f.verdicts {
		of[v.class] = append(of[v.class], name)
	}
	text := fmt.Sprintf("%d %s: %d %s", len(f.verdicts), plural(len(f.verdicts), "machine"), len(of[0]), f.classes[0])
	for c := 1; c < len(of); c++ {
		slices.SortFunc(of[c], cmp.Compare[string])
		if n := len(of[c]); n > 0 {
			text += fmt.Sprintf(", %d %s (%s)", n, f.classes[c], strings.Join(of[c][:min(n, 5)], ", "))
		}
	}
	return text
}
