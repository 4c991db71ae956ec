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

// skipTo continues after an output message without judging earlier messages.
func (w *watcher) skipTo(ctx context.Context, seq uint64) error {
	if err := w.acceptTail(seq); err != nil {
		return err
	}
	w.fold.SkipTo(seq)
	if err := w.saveState(ctx); err != nil {
		return err
	}
	return w.applyConfiguredRules(ctx)
}

func (w *watcher) warnOfLimits() {
	if w.fold.ReportCrowded() {
		w.Log.Warn("rules of kind drift have too many keys: new keys get no drift alarm; restrict the rules to fewer streams (streams S) or group the streams (by)", "keys", alarm.MostSeries)
	}
	if w.fold.ReportFull() {
		w.Log.Warn("too many streams, and all have alarms: new streams are not judged; run jobs with fewer streams, or find out why every stream has an alarm", "streams", alarm.MostStreams)
	}
}

// judgeOutput judges an output message.
func (w *watcher) judgeOutput(ctx context.Context, o *consumer.Output) error {
	if o.Seq <= w.fold.Position() {
		return nil
	}
	if err := w.raiseSilences(ctx, o.Seq); err != nil { // the server's report precedes this message
		return err
	}
	if o.Stored.IsZero() {
		w.fold.PassMessage(o.Seq)
		return w.applyFacts(ctx, o.Seq)
	}
	m := alarm.Message{Seq: o.Seq, Stored: o.Stored, Partition: o.Partition, Outs: o.Outs, Labels: o.Meta.Labels, Predictions: o.Predictions}
	err := w.fold.CheckMissing(&m)
	if errors.Is(err, alarm.ErrMissing) {
		if back, _, checkErr := w.findReplaced(ctx); checkErr == nil && back {
			return fmt.Errorf("%w: judged messages of %s were replaced", errBack, wire.OutputStream(w.Job))
		}
	}
	if err == nil {
		err = w.applyFactsUpTo(ctx, o.Seq-1)
	}
	if errors.Is(err, alarm.ErrMissing) && w.Missing && !w.standby.following {
		w.Log.Warn("continuing without the removed predictions; active alarms stay active", "err", err)
		err = w.skipTo(ctx, o.Seq-1)
	}
	if err != nil {
		return err
	}
	w.warnOfRules(&m)
	events, err := w.fold.JudgeMessage(&m)
	w.warnOfLimits()
	if err == nil {
		err = w.emitEvents(ctx, events)
	}
	if err == nil {
		err = w.applyFacts(ctx, o.Seq)
	}
	if err == nil {
		err = w.saveIfDue(ctx)
	}
	return err
}

// saveIfDue stores the state periodically. A process that is catching up saves more often, so that
// a successor starts from a later position.
func (w *watcher) saveIfDue(ctx context.Context) error {
	if w.standby.following {
		return nil
	}
	every := cmp.Or(w.Save, saveEvery)
	if w.fold.Position() < w.target.last || len(w.tail) > 0 {
		every = min(every, max(time.Second, 10*w.saved.took))
	}
	if time.Since(w.saved.when) < every {
		return nil
	}
	return w.saveState(ctx)
}

// applyFactsUpTo calls applyFacts for a position when every earlier message of the output has been
// judged. The error is ErrMissing if the output lost the message that an event of the tail followed
// from.
func (w *watcher) applyFactsUpTo(ctx context.Context, position uint64) error {
	err := w.applyFacts(ctx, position)
	if !errors.Is(err, ErrDiffers) {
		return err
	}
	try, cancel := w.book.link.Attempt(ctx)
	defer cancel()
	switch _, lost := w.output.GetMsg(try, w.tail[0].Event.Position); {
	case errors.Is(lost, jetstream.ErrMsgNotFound):
		return fmt.Errorf("watch: %w: message %d of %s, the source of event %d", alarm.ErrMissing, w.tail[0].Event.Position, wire.OutputStream(w.Job), w.tail[0].Event.Number)
	case lost != nil: // unknown
		return fmt.Errorf("watch: message %d of %s: %w", w.tail[0].Event.Position, wire.OutputStream(w.Job), lost)
	}
	return err
}

// applyFacts applies the tail's events up to a position that follow from no prediction (other
// rules, acknowledgements, silence). At the end of the tail it activates the configured rules.
func (w *watcher) applyFacts(ctx context.Context, position uint64) error {
	for len(w.tail) > 0 && w.tail[0].Event.Position <= position {
		e := &w.tail[0].Event
		follows, err := w.fold.ApplyFact(*e)
		if err != nil {
			return newDiffersError(w.Job, e, err)
		}
		w.tail = w.tail[1:]
		if err := w.emitEvents(ctx, follows); err != nil {
			return err
		}
	}
	if len(w.tail) > 0 || w.lost != nil && position < w.lost.last || w.standby.following {
		return nil
	}
	if w.lost != nil {
		if err := w.resumeLog(ctx); err != nil {
			return err
		}
	}
	return w.applyConfiguredRules(ctx)
}

// ErrDiffers means that the log does not match the events that follow from the predictions.
var ErrDiffers = errors.New("the alarm log does not match the job's predictions")

func newDiffersError(job string, e *alarm.Event, why error) error {
	return fmt.Errorf("watch: %w: event %d at position %d: %w: another program wrote the log, or the output was changed; use the program that wrote the log; or %s", ErrDiffers, e.Number, e.Position, why, recreateHint(job))
}

// emitEvents publishes events, or compares them with the tail.
func (w *watcher) emitEvents(ctx context.Context, events []alarm.Event) error {
	for i := range events {
		e := &events[i]
		if len(w.tail) == 0 && w.standby.following {
			return fmt.Errorf("%w: event %d is not in the log", errDiverged, e.Number)
		}
		if len(w.tail) == 0 {
			all := make([]alarm.Logged, 0, len(events)-i)
			for _, e := range events[i:] {
				judged, by := e.JudgedPlaces()
				all = append(all, alarm.Logged{Event: e, Judged: judged, By: by})
			}
			return w.publishEvents(ctx, all...)
		}
		expected := w.tail[0].Event
		a, err1 := e.Marshal()
		b, err2 := expected.Marshal()
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		if !bytes.Equal(a, b) {
			return newDiffersError(w.Job, &expected, fmt.Errorf("it is %s, want %s", b, a))
		}
		w.tail = w.tail[1:]
	}
	return nil
}

// publishEvents stores events and reports them.
func (w *watcher) publishEvents(ctx context.Context, all ...alarm.Logged) error {
	if err := w.book.publishEvents(ctx, all); err != nil {
		return err
	}
	for i := range all {
		if w.Event != nil {
			w.Event(&all[i].Event)
		}
	}
	return nil
}

// addFact stores an event that follows from no prediction, and applies it.
func (w *watcher) addFact(ctx context.Context, e alarm.Event) error {
	if err := w.publishEvents(ctx, alarm.Logged{Event: e, Judged: w.fold.JudgedPlaces()}); err != nil {
		return err
	}
	follows, err := w.fold.ApplyFact(e)
	if err != nil {
		return err
	}
	return w.emitEvents(ctx, follows)
}

// saveState stores the state if it has changed.
func (w *watcher) saveState(ctx context.Context) error {
	now := [2]uint64{w.fold.Position(), w.fold.Number()}
	w.saved.when = time.Now()
	if now == w.saved.progress || w.lost != nil { // the remaining lost events are not reached yet
		return nil
	}
	w.latest.markUnconfirmed(w.fold)
	if err := w.book.saveState(ctx, w.fold, w.tail, w.outputCreated); err != nil {
		return err
	}
	w.saved.progress, w.saved.took = now, time.Since(w.saved.when)
	return nil
}
