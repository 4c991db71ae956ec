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

// compare finds out whether the output has lost messages that were judged (a power
// failure), and what of the log is about them. last is the output's last message.
//
// What was judged last is compared: an event has the time at which the message was stored
// that it follows from. If the output has that message no more, or another one in its
// place, it went back in time. The stage makes the lost predictions again, in other
// messages, under the same numbers.
func (w *watcher) compare(ctx context.Context, last uint64) error {
	most := w.fold.Position()
	if n := len(w.tail); n > 0 {
		most = max(most, w.tail[n-1].Event.Position)
	}
	other, before, err := w.replaced(ctx)
	switch {
	case err != nil:
		return err
	case other:
		last = before
	case last >= most:
		return nil
	}
	split := 0
	for split < len(w.tail) && w.tail[split].Event.Position <= last {
		split++
	}
	if n := len(w.tail); n > 0 && resumed(&w.tail[n-1]) {
		split = min(split, n-1)
	}
	w.tail, w.lost = w.tail[:split:split], &lost{last, w.tail[split:]}
	return nil
}

// resumed reports whether an event says that the output went back in time.
func resumed(e *alarm.Logged) bool { return e.Event.Kind == alarm.RulesChanged && e.Event.Why != "" }

// replaced reports whether the message whose predictions were judged last has another one
// in its place, and then the last message before those that were lost.
func (w *watcher) replaced(ctx context.Context) (other bool, before uint64, err error) {
	seq, stored := w.fold.Taken()
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
	if errors.Is(err, jetstream.ErrMsgNotFound) { // lost, or removed as old messages are
		return false, 0, nil
	}
	if err != nil {
		return false, 0, fmt.Errorf("watch: message %d of %s: %w", seq, wire.OutputStream(w.Job), err)
	}
	if m.Time.UnixNano() == stored {
		return false, 0, nil
	}
	before, err = w.until(ctx, time.Unix(0, stored+1), seq)
	return before < seq && err == nil, before, err
}

// resume continues behind what the output has lost.
func (w *watcher) resume(ctx context.Context) error {
	back, rest := w.lost.back, w.lost.rest
	if err := w.fold.Resume(rest, back); err != nil {
		return err
	}
	w.lost = nil
	why := fmt.Sprintf("the job's output went back in time, to message %d (a power failure?): the %d events of what it has lost stand, and predictions that are made again are not judged twice", back, len(rest))
	w.Log.Warn(why, "stream", wire.OutputStream(w.Job))
	if n := len(rest); n == 0 || !resumed(&rest[n-1]) { // it is said once, also if the process ends now
		e := w.fold.Resumed(why, w.Who, time.Now())
		if err := w.add(ctx, e); err != nil {
			return err
		}
	}
	w.saved.at = [2]uint64{}
	return w.save(ctx)
}
