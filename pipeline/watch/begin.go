package watch

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/pipeline/alarm"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/store"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
)

// begin finds or makes the log, and becomes its writer.
func (w *watcher) begin(ctx context.Context) error {
	var err error
	if w.output, err = w.js.Stream(ctx, wire.OutputStream(w.Job)); err != nil {
		return fmt.Errorf("watch: NATS stream %s: %w", wire.OutputStream(w.Job), err)
	}
	out := w.output.CachedInfo()
	w.made = out.Created.UTC()
	for {
		known, err := w.book.read(ctx)
		if err != nil {
			return err
		}
		if known {
			err = w.book.claim(ctx)
		} else {
			err = w.new(ctx, out)
		}
		if err == nil {
			break
		}
		if !errors.Is(err, ErrFenced) { // another process has published since: look again
			return err
		}
		if err := store.Pause(ctx, store.RetryWait); err != nil {
			return err
		}
	}
	if !w.book.record.Output.Equal(w.made) {
		return fmt.Errorf("watch: the alarm log is of an output of job %s that was made %s, and now there is one made %s; %s",
			w.Job, w.book.record.Output.Format(time.RFC3339), w.made.Format(time.RFC3339), anew(w.Job))
	}
	if w.fold, err = w.book.state(ctx); err != nil {
		return err
	}
	behind, err := w.book.tail(ctx)
	if err != nil {
		return err
	}
	w.tail = append(w.fold.Tail(), behind...)
	// Asked again: the process before may have judged and stored more since it was asked
	// first. From the claim on, it cannot.
	if out, err = w.output.Info(ctx); err != nil {
		return fmt.Errorf("watch: NATS stream %s: %w", wire.OutputStream(w.Job), err)
	}
	w.target = target{last: out.State.LastSeq, since: time.Now()}
	return w.compare(ctx, w.target.last)
}

// new begins a log with a state that has judged nothing.
func (w *watcher) new(ctx context.Context, out *jetstream.StreamInfo) error {
	position := out.State.LastSeq
	if !w.Since.IsZero() {
		var err error
		if position, err = w.until(ctx, w.Since, position); err != nil {
			return err
		}
	}
	prefix := w.Job + "-" + strconv.FormatInt(w.book.stream.CachedInfo().Created.UnixMilli(), 36)
	if w.book.last > 0 { // of a log whose messages were removed
		prefix += "-" + strconv.FormatUint(w.book.last, 10)
	}
	return w.book.save(ctx, alarm.NewFold(prefix, position), nil, w.made)
}

// until is the last message of the output that was stored before a time: last, where none
// was stored since.
func (w *watcher) until(ctx context.Context, since time.Time, last uint64) (uint64, error) {
	cons, err := w.output.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &since})
	if err != nil {
		return 0, fmt.Errorf("watch: NATS stream %s: %w", wire.OutputStream(w.Job), err)
	}
	if info := cons.CachedInfo(); info != nil && info.NumPending == 0 {
		return last, nil
	}
	m, err := cons.Next(jetstream.FetchMaxWait(stopTimeout))
	if err != nil {
		return 0, fmt.Errorf("watch: NATS stream %s: %w", wire.OutputStream(w.Job), err)
	}
	meta, err := m.Metadata()
	if err != nil {
		return 0, err
	}
	return meta.Sequence.Stream - 1, nil
}

// believe takes the tail as it is, because predictions that it follows from are not
// there, or come again.
func (w *watcher) believe(position uint64) error {
	for _, e := range w.tail {
		if err := w.fold.Believe(e.Event); err != nil {
			return err
		}
	}
	w.tail = nil
	w.fold.Rewind(position)
	return nil
}
