package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/pipeline/alarm"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
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
	if rule, class, found := rules.Unknown(m.Labels); found {
		w.say("class "+rule+" "+class, "a rule names a class that the job's model does not have: no prediction is of it", "rule", rule, "class", class, "classes", m.Labels)
	}
	if r := rules.WantsProbability(); r != nil && withoutProbability(m.Predictions) {
		w.say("probability "+r.Name, "a rule wants a probability, and the job's model gives none: its alarm is never raised; write the rule without >=, or train the model again", "rule", r.Name)
	}
	if r := rules.WantsInputs(); r != nil && !slices.ContainsFunc(m.Predictions, func(p codec.Prediction) bool { return p.Inputs != nil }) {
		w.say("inputs "+r.Name, "a rule is about drift of inputs, and the job's model does not say what they are like: its alarm is never raised; train the model with --drift", "rule", r.Name)
	}
	if r := rules.WantsNovelty(); r != nil && withoutNovelty(m.Predictions) {
		w.say("novelty "+r.Name, "a rule is about what is novel, and the job's model says nothing of that: its alarm is never raised; train the model with --novelty or --healthy-only", "rule", r.Name)
	}
	if r := rules.WantsNumber(); r != nil && withoutNumber(m.Predictions) {
		w.say("number "+r.Name, "a rule is about a predicted number, and the job's model predicts classes: its alarm is never raised; write a rule of kind class, or train the model with --target", "rule", r.Name)
	}
}

// say warns once.
func (w *watcher) say(key, text string, args ...any) {
	if !w.noted[key] {
		w.noted[key] = true
		w.Log.Warn(text, args...)
	}
}

func withoutNumber(all []codec.Prediction) bool {
	for i := range all {
		if all[i].Number.Known {
			return false
		}
	}
	return true
}

func withoutNovelty(all []codec.Prediction) bool {
	for i := range all {
		if all[i].NoveltyP != 0 {
			return false
		}
	}
	return true
}

func withoutProbability(all []codec.Prediction) bool {
	for i := range all {
		if all[i].Probability != 0 {
			return false
		}
	}
	return true
}
