package watch

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// begin finds or makes the log, and becomes its writer: where no other process keeps the
// alarms, or when that one does not answer any more. Until quiet is called, others hear that
// this one does. All of it is on one connection: ctx ends when that breaks.
func (w *watcher) begin(ctx context.Context) (quiet func(), err error) {
	if err := Ensure(ctx, w.process.js, w.Job, w.Replicas); err != nil {
		return nil, err
	}
	if w.book, err = openBook(ctx, w.process.js, w.process.link, w.Job, rand.Text(), w.Log); err != nil {
		return nil, err
	}
	if w.latest, err = newLatest(w.process.nc, w.book); err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	asker := newAsker(w.process.nc, w.Job)
	for {
		quiet, err := w.claim(ctx, asker)
		switch {
		case err == nil:
			if w.Writes != nil {
				w.Writes()
			}
			if err := w.restore(ctx); err != nil {
				quiet()
				return nil, err
			}
			return quiet, nil
		case !errors.Is(err, ErrFenced): // otherwise another process has published since: look again
			return nil, err
		}
		if err := store.Pause(ctx, againSoon); err != nil {
			return nil, err
		}
	}
}

// claim becomes the writer of the log. It listens before that: of two processes that find
// nobody, one is first, and the other one hears of it.
func (w *watcher) claim(ctx context.Context, asker *asker) (quiet func(), err error) {
	if w.output, err = w.process.js.Stream(ctx, wire.OutputStream(w.Job)); err != nil {
		return nil, fmt.Errorf("watch: NATS stream %s: %w", wire.OutputStream(w.Job), err)
	}
	out := w.output.CachedInfo()
	w.made = out.Created.UTC()
	known, err := w.book.read(ctx)
	if err != nil {
		return nil, err
	}
	if known && !w.TakeOver { // a log that has not begun has no keeper
		asker.believes(w.book.record, w.process.claimed, w.process.began)
		// Asked behind what was read: who has taken the alarms since listens, or the server
		// refuses our record.
		switch first, err := asker.ask(ctx); {
		case err == nil:
			w.forget()
			if err = w.standBy(ctx, first, asker); err == nil {
				err = fmt.Errorf("%w: it does not answer any more", ErrFenced) // look again, and claim
			}
			return nil, err
		case errors.Is(err, errLost), ctx.Err() != nil:
			return nil, err
		case !errors.Is(err, errNobody):
			return nil, fmt.Errorf("%w: %w", ErrFenced, err) // not known: look and ask again
		}
	}
	if quiet, err = w.listen(); err != nil {
		return nil, err
	}
	if known {
		err = w.book.claim(ctx)
	} else {
		err = w.new(ctx, out)
	}
	if err != nil {
		quiet()
		return nil, err
	}
	w.process.claimed = w.book.writer
	return quiet, nil
}

// restore takes what this process has followed, or the stored state, and what the log has
// behind it.
func (w *watcher) restore(ctx context.Context) error {
	if !w.book.record.Output.Equal(w.made) {
		return fmt.Errorf("watch: the alarm log is of an output of job %s that was made %s, and now there is one made %s; %s",
			w.Job, w.book.record.Output.Format(time.RFC3339), w.made.Format(time.RFC3339), anew(w.Job))
	}
	var err error
	from := w.standby.followed + 1
	if w.standby.warm = w.ready(ctx); w.standby.warm {
		w.Log.Info("taking the alarms over behind what this process has followed", "position", w.fold.Position())
		w.saved.when = time.Now()
		for _, set := range w.standby.sets {
			for name := range set.streams {
				w.fold.Again(name)
			}
		}
	} else {
		w.forget()
		if w.fold, err = w.book.state(ctx); err != nil {
			return err
		}
		w.tail, from = w.fold.Tail(), w.book.record.Last+1
	}
	behind, err := w.book.tail(ctx, from)
	if err != nil {
		return err
	}
	w.tail = append(w.tail, behind...)
	// Asked again: the process before may have judged and stored more since it was asked
	// first. From the claim on, it cannot.
	out, err := w.output.Info(ctx)
	if err != nil {
		return fmt.Errorf("watch: NATS stream %s: %w", wire.OutputStream(w.Job), err)
	}
	w.target = target{last: out.State.LastSeq, since: time.Now()}
	if err = w.compare(ctx, w.target.last); err == nil && w.lost != nil && w.standby.warm {
		err = fmt.Errorf("%w: %s", errBack, wire.OutputStream(w.Job))
	}
	return err
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
