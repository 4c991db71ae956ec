package watch

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// skipTo continues after a message of the output without having judged those before.
func (w *watcher) skipTo(ctx context.Context, seq uint64) error {
	if err := w.believe(seq); err != nil {
		return err
	}
	w.fold.Skip(seq)
	if err := w.save(ctx); err != nil {
		return err
	}
	return w.start(ctx)
}

func (w *watcher) warnOfLimits() {
	if w.fold.Crowded() {
		w.Log.Warn("rules of kind drift have too many keys: those that come now have no alarm of drift; give the rules fewer streams (streams S) or count groups of them (by)", "keys", alarm.MostSeries)
	}
	if w.fold.Full() {
		w.Log.Warn("too many streams, and all of them have alarms: those that come now are not judged; run jobs of fewer streams, or find out why every stream has an alarm", "streams", alarm.MostStreams)
	}
}

// take judges a message of the output.
func (w *watcher) take(ctx context.Context, o *consumer.Output) error {
	if o.Seq <= w.fold.Position() {
		return nil
	}
	if err := w.silences(ctx, o.Seq); err != nil { // what the server said before it had this one
		return err
	}
	if o.Stored.IsZero() {
		w.fold.Pass(o.Seq)
		return w.facts(ctx, o.Seq)
	}
	m := alarm.Message{Seq: o.Seq, Stored: o.Stored, Partition: o.Partition, Outs: o.Outs, Labels: o.Meta.Labels, Predictions: o.Predictions}
	err := w.fold.Missing(&m)
	if errors.Is(err, alarm.ErrMissing) {
		if back, _, again := w.replaced(ctx); again == nil && back {
			return fmt.Errorf("%w: messages of %s that were judged are others now", errBack, wire.OutputStream(w.Job))
		}
	}
	if err == nil {
		err = w.reached(ctx, o.Seq-1)
	}
	if errors.Is(err, alarm.ErrMissing) && w.Missing && !w.standby.on {
		w.Log.Warn("continuing without predictions that are gone; alarms that are on stay on", "err", err)
		err = w.skipTo(ctx, o.Seq-1)
	}
	if err != nil {
		return err
	}
	w.note(&m)
	events, err := w.fold.Take(&m)
	w.warnOfLimits()
	if err == nil {
		err = w.emit(ctx, events)
	}
	if err == nil {
		err = w.facts(ctx, o.Seq)
	}
	if err == nil {
		err = w.saveIfDue(ctx)
	}
	return err
}

// saveIfDue stores the state from time to time. A process that catches up does it more
// often: if another one takes over meanwhile, that one goes on from there.
func (w *watcher) saveIfDue(ctx context.Context) error {
	if w.standby.on {
		return nil
	}
	every := cmp.Or(w.Save, saveEvery)
	if w.fold.Position() < w.target.last || len(w.tail) > 0 {
		every = min(every, max(time.Second, 10*w.saved.took))
	}
	if time.Since(w.saved.when) < every {
		return nil
	}
	return w.save(ctx)
}

// reached is facts, where the output has nothing up to a position that was not judged. If
// it does not have the message any more from which an event follows, the error is
// ErrMissing.
func (w *watcher) reached(ctx context.Context, position uint64) error {
	err := w.facts(ctx, position)
	if !errors.Is(err, ErrDiffers) {
		return err
	}
	try, cancel := w.book.link.Attempt(ctx)
	defer cancel()
	switch _, lost := w.output.GetMsg(try, w.tail[0].Event.Position); {
	case errors.Is(lost, jetstream.ErrMsgNotFound):
		return fmt.Errorf("watch: %w: those in message %d of %s, of which event %d was made", alarm.ErrMissing, w.tail[0].Event.Position, wire.OutputStream(w.Job), w.tail[0].Event.Number)
	case lost != nil: // not known
		return fmt.Errorf("watch: message %d of %s: %w", w.tail[0].Event.Position, wire.OutputStream(w.Job), lost)
	}
	return err
}

// facts takes the events of the tail that come at or before a position and follow from
// no prediction, and begins when there is no tail any more.
func (w *watcher) facts(ctx context.Context, position uint64) error {
	for len(w.tail) > 0 && w.tail[0].Event.Position <= position {
		e := &w.tail[0].Event
		follows, err := w.fold.Apply(*e)
		if err != nil {
			return differs(w.Job, e, err)
		}
		w.tail = w.tail[1:]
		if err := w.emit(ctx, follows); err != nil {
			return err
		}
	}
	if len(w.tail) > 0 || w.lost != nil && position < w.lost.back || w.standby.on {
		return nil
	}
	if w.lost != nil {
		if err := w.resume(ctx); err != nil {
			return err
		}
	}
	return w.start(ctx)
}

// ErrDiffers is the error where the log is not what follows from the predictions.
var ErrDiffers = errors.New("the alarm log is not what follows from the job's predictions")

func differs(job string, e *alarm.Event, why error) error {
	return fmt.Errorf("watch: %w: event %d at position %d: %w: it was written by another program, or the output was changed; use the program that wrote it; or %s", ErrDiffers, e.Number, e.Position, why, anew(job))
}

// emit publishes events, or finds them in the tail.
func (w *watcher) emit(ctx context.Context, events []alarm.Event) error {
	for i := range events {
		e := &events[i]
		if len(w.tail) == 0 && w.standby.on {
			return fmt.Errorf("%w: event %d is not in the log", errAgain, e.Number)
		}
		if len(w.tail) == 0 {
			all := make([]alarm.Logged, 0, len(events)-i)
			for _, e := range events[i:] {
				judged, by := e.Judged()
				all = append(all, alarm.Logged{Event: e, Judged: judged, By: by})
			}
			return w.publish(ctx, all...)
		}
		was := w.tail[0].Event
		a, err1 := e.Marshal()
		b, err2 := was.Marshal()
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		if !bytes.Equal(a, b) {
			return differs(w.Job, &was, fmt.Errorf("it is %s, want %s", b, a))
		}
		w.tail = w.tail[1:]
	}
	return nil
}

// publish stores events.
func (w *watcher) publish(ctx context.Context, all ...alarm.Logged) error {
	if err := w.book.events(ctx, all); err != nil {
		return err
	}
	for i := range all {
		if w.Event != nil {
			w.Event(&all[i].Event)
		}
	}
	return nil
}

// add stores a fact and takes it.
func (w *watcher) add(ctx context.Context, e alarm.Event) error {
	if err := w.publish(ctx, alarm.Logged{Event: e, Judged: w.fold.Judged()}); err != nil {
		return err
	}
	follows, err := w.fold.Apply(e)
	if err != nil {
		return err
	}
	return w.emit(ctx, follows)
}

// save stores the state, if it is another one than before.
func (w *watcher) save(ctx context.Context) error {
	now := [2]uint64{w.fold.Position(), w.fold.Number()}
	w.saved.when = time.Now()
	if now == w.saved.at || w.lost != nil { // what the rest is about is not reached yet
		return nil
	}
	w.latest.unsure(w.fold)
	if err := w.book.save(ctx, w.fold, w.tail, w.made); err != nil {
		return err
	}
	w.saved.at, w.saved.took = now, time.Since(w.saved.when)
	return nil
}
