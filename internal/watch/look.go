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

// checkServer asks the server whether this process still writes the log, and what the output has.
func (w *watcher) checkServer(ctx context.Context) error {
	if err := w.book.checkWriter(ctx); err != nil {
		return err
	}
	try, cancel := w.book.link.Attempt(ctx)
	info, err := w.output.Info(try)
	cancel()
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return fmt.Errorf("watch: NATS stream %s was deleted", wire.OutputStream(w.Job))
	case err != nil: // the server is unreachable: the listening time restarts
		w.listening = time.Time{}
		return nil
	case !info.Created.Equal(w.outputCreated):
		return fmt.Errorf("watch: NATS stream %s was deleted and recreated", wire.OutputStream(w.Job))
	case info.State.LastSeq < w.fold.Position():
		return fmt.Errorf("%w: %s, from message %d to %d", errBack, wire.OutputStream(w.Job), w.fold.Position(), info.State.LastSeq)
	}
	w.observed = outputMark{info.State.LastSeq, info.TimeStamp.UTC()}
	if w.listening.IsZero() {
		w.listening = w.observed.time
	}
	if w.fold.Position() < w.observed.last {
		return nil
	}
	if err := w.applyFacts(ctx, w.observed.last); err != nil {
		return err
	}
	if len(w.tail) > 0 {
		return newDiffersError(w.Job, &w.tail[0].Event, errors.New("the output lacks this message"))
	}
	return w.raiseSilences(ctx, w.observed.last+1)
}

// applyConfiguredRules activates the rules of the configuration at the end of the tail.
func (w *watcher) applyConfiguredRules(ctx context.Context) error {
	if w.started {
		return nil
	}
	w.started = true
	hold, configured := w.fold.Rules()
	if print := fingerprint(w.Rules); w.Rules != nil && print != configured {
		if err := w.addFact(ctx, w.fold.ChangeRules(w.Rules, print, w.Who, time.Now())); err != nil {
			return err
		}
		hold = w.Rules
	}
	if w.Begun != nil {
		w.Begun(hold)
	}
	return nil
}

// raiseSilences raises the alarms of silence rules at the time of the last server report, if every
// message of the report was judged and no later message (next).
func (w *watcher) raiseSilences(ctx context.Context, next uint64) error {
	observed := w.observed
	if observed.time.IsZero() || w.fold.Position() < observed.last && next <= observed.last || !w.started {
		return nil
	}
	w.observed = outputMark{}
	for _, e := range w.fold.Silences(observed.time, w.listening) {
		if err := w.addFact(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// warnOfRules warns once about each rule that cannot work with these predictions.
func (w *watcher) warnOfRules(m *alarm.Message) {
	if len(m.Predictions) == 0 {
		return
	}
	rules, _ := w.fold.Rules()
	for _, n := range rules.Unreachable(alarm.CapabilitiesOf(m.Labels, m.Predictions)) {
		args := []any{"rule", n.Rule}
		if n.Class != "" {
			args = append(args, "class", n.Class, "classes", n.Classes)
		}
		w.warnOnce(n.Rule+" "+n.Class+" "+n.Why, n.Why, args...)
	}
}

// warnOnce warns once per key.
func (w *watcher) warnOnce(key, text string, args ...any) {
	if !w.warned[key] {
		w.warned[key] = true
		w.Log.Warn(text, args...)
	}
}
