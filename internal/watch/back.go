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

// compareOutput checks whether the output lost judged messages (a power failure) and splits the
// log's tail there. last is the number of the output's last message.
//
// The check uses the last judged message: its event carries the message's storage time. If the
// output lacks this message, or has a different message under the number, the output went back in
// time. The stage then republishes the lost predictions in new messages, with the same prediction
// numbers.
func (w *watcher) compareOutput(ctx context.Context, last uint64) error {
	judged := w.fold.Position()
	if n := len(w.tail); n > 0 {
		judged = max(judged, w.tail[n-1].Event.Position)
	}
	changed, before, err := w.findReplaced(ctx)
	switch {
	case err != nil:
		return err
	case changed:
		last = before
	case last >= judged:
		return nil
	}
	split := 0
	for split < len(w.tail) && w.tail[split].Event.Position <= last {
		split++
	}
	if n := len(w.tail); n > 0 && isResumption(&w.tail[n-1]) {
		split = min(split, n-1)
	}
	w.tail, w.lost = w.tail[:split:split], &lostOutput{last, w.tail[split:]}
	return nil
}

// isResumption reports whether an event records that the output went back in time.
func isResumption(e *alarm.Logged) bool {
	return e.Event.Kind == alarm.RulesChanged && e.Event.Why != ""
}

// findReplaced reports whether a different message took the place of the last judged message.
// before is then the last message that survived.
func (w *watcher) findReplaced(ctx context.Context) (changed bool, before uint64, err error) {
	seq, stored := w.fold.LastJudged()
	for _, e := range w.tail {
		if e.By != (alarm.Place{}) {
			seq, stored = e.Event.Position, e.Event.Time.UnixNano()
		}
	}
	if seq == 0 {
		return false, 0, nil
	}
	try, cancel := w.book.link.Attempt(ctx)
	defer cancel()
	m, err := w.output.GetMsg(try, seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) { // lost, or removed by retention
		return false, 0, nil
	}
	if err != nil {
		return false, 0, fmt.Errorf("watch: message %d of %s: %w", seq, wire.OutputStream(w.Job), err)
	}
	if m.Time.UnixNano() == stored {
		return false, 0, nil
	}
	out, err := w.output.Info(try)
	if err != nil {
		return false, 0, fmt.Errorf("watch: NATS stream %s: %w", wire.OutputStream(w.Job), err)
	}
	before, err = w.lastBefore(ctx, time.Unix(0, stored+1), out)
	return before < seq && err == nil, before, err
}

// resumeLog continues after the part that the output lost.
func (w *watcher) resumeLog(ctx context.Context) error {
	back, rest := w.lost.last, w.lost.events
	if err := w.fold.Resume(rest, back); err != nil {
		return err
	}
	w.lost = nil
	why := fmt.Sprintf("the job's output went back in time, to message %d (a power failure?): the %d events of the lost messages stay valid, and republished predictions are not judged twice", back, len(rest))
	w.Log.Warn(why, "stream", wire.OutputStream(w.Job))
	if n := len(rest); n == 0 || !isResumption(&rest[n-1]) { // logged once, even if the process ends now
		e := w.fold.ResumptionEvent(why, w.Who, time.Now())
		if err := w.addFact(ctx, e); err != nil {
			return err
		}
	}
	w.saved.progress = [2]uint64{}
	return w.saveState(ctx)
}
