package watch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// look asks the server whether the log is still ours, and what the output has.
func (w *watcher) look(ctx context.Context) error {
	if err := w.book.still(ctx); err != nil {
		return err
	}
	try, cancel := w.book.link.Attempt(ctx)
	info, err := w.output.Info(try)
	cancel()
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return fmt.Errorf("watch: NATS stream %s was deleted", wire.OutputStream(w.Job))
	case err != nil: // the server is away: nobody has listened
		w.listening = time.Time{}
		return nil
	case !info.Created.Equal(w.made):
		return fmt.Errorf("watch: NATS stream %s was deleted and made again", wire.OutputStream(w.Job))
	case info.State.LastSeq < w.fold.Position():
		return fmt.Errorf("%w: %s, from message %d to %d", errBack, wire.OutputStream(w.Job), w.fold.Position(), info.State.LastSeq)
	}
	w.looked = mark{info.State.LastSeq, info.TimeStamp.UTC()}
	if w.listening.IsZero() {
		w.listening = w.looked.at
	}
	if w.fold.Position() < w.looked.last {
		return nil
	}
	if err := w.facts(ctx, w.looked.last); err != nil {
		return err
	}
	if len(w.tail) > 0 {
		return differs(w.Job, &w.tail[0].Event, errors.New("the output does not have that message"))
	}
	return w.silences(ctx, w.looked.last+1)
}

// start uses the rules of the configuration, once the tail has come to its end.
func (w *watcher) start(ctx context.Context) error {
	if w.begun {
		return nil
	}
	w.begun = true
	hold, configured := w.fold.Rules()
	if print := fingerprint(w.Rules); w.Rules != nil && print != configured {
		if err := w.add(ctx, w.fold.ChangeRules(w.Rules, print, w.Who, time.Now())); err != nil {
			return err
		}
		hold = w.Rules
	}
	if w.Begun != nil {
		w.Begun(hold)
	}
	return nil
}

// silences raises the alarms of rules about silence at what the server said last, if
// all that it had then has been judged, and nothing of what came after it (next).
func (w *watcher) silences(ctx context.Context, next uint64) error {
	seen := w.looked
	if seen.at.IsZero() || w.fold.Position() < seen.last && next <= seen.last || !w.begun {
		return nil
	}
	w.looked = mark{}
	for _, e := range w.fold.Silences(seen.at, w.listening) {
		if err := w.add(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// note says once what of the rules cannot work with these predictions.
func (w *watcher) note(m *alarm.Message) {
	if len(m.Predictions) == 0 {
		return
	}
	rules, _ := w.fold.Rules()
	for _, n := range rules.Never(alarm.GivesIn(m.Labels, m.Predictions)) {
		args := []any{"rule", n.Rule}
		if n.Class != "" {
			args = append(args, "class", n.Class, "classes", m.Labels)
		}
		w.say(n.Rule+" "+n.Class+" "+n.Why, n.Why, args...)
	}
}

// say warns once.
func (w *watcher) say(key, text string, args ...any) {
	if !w.noted[key] {
		w.noted[key] = true
		w.Log.Warn(text, args...)
	}
}
