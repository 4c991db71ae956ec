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

// becomeWriter finds or creates the log and becomes its writer: at once if no process keeps the
// alarms, otherwise when that process no longer answers. This process answers questions of other
// processes until quiet is called. ctx belongs to one connection and ends with the connection.
func (w *watcher) becomeWriter(ctx context.Context) (quiet func(), err error) {
	if err := EnsureStreams(ctx, w.process.js, w.Job, w.Replicas); err != nil {
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
		quiet, err := w.claimAlarms(ctx, asker)
		switch {
		case err == nil:
			if w.Writes != nil {
				w.Writes()
			}
			if err := w.restoreState(ctx); err != nil {
				quiet()
				return nil, err
			}
			return quiet, nil
		case !errors.Is(err, ErrFenced): // another process published in the meantime: retry
			return nil, err
		}
		if err := store.Pause(ctx, shortRetry); err != nil {
			return nil, err
		}
	}
}

// claimAlarms becomes the writer of the log. The process listens before the claim: if two processes
// find no keeper, the second process hears the first.
func (w *watcher) claimAlarms(ctx context.Context, asker *asker) (quiet func(), err error) {
	if w.output, err = w.process.js.Stream(ctx, wire.OutputStream(w.Job)); err != nil {
		return nil, fmt.Errorf("watch: NATS stream %s: %w", wire.OutputStream(w.Job), err)
	}
	out := w.output.CachedInfo()
	w.outputCreated = out.Created.UTC()
	known, err := w.book.readRecord(ctx)
	if err != nil {
		return nil, err
	}
	if known && !w.TakeOver { // a new log has no keeper
		asker.considerRecord(w.book.record, w.process.lastWriter, w.process.connectedBefore)
		// The question comes after readRecord: a process that took the alarms over since then
		// listens, or the server refuses our record.
		switch first, err := asker.askPulse(ctx); {
		case err == nil:
			w.discardState()
			if err = w.standBy(ctx, first, asker); err == nil {
				err = fmt.Errorf("%w: it no longer answers", ErrFenced) // read the record and claim
			}
			return nil, err
		case errors.Is(err, errLost), ctx.Err() != nil:
			return nil, err
		case !errors.Is(err, errNobody):
			return nil, fmt.Errorf("%w: %w", ErrFenced, err) // unknown: read the record and retry
		}
	}
	if quiet, err = w.answerPulses(); err != nil {
		return nil, err
	}
	if known {
		err = w.book.claimRecord(ctx)
	} else {
		err = w.createLog(ctx, out)
	}
	if err != nil {
		quiet()
		return nil, err
	}
	w.process.lastWriter = w.book.writer
	return quiet, nil
}

// restoreState uses the state that this process followed, or the stored state, and reads the log's
// later messages.
func (w *watcher) restoreState(ctx context.Context) error {
	if !w.book.record.Output.Equal(w.outputCreated) {
		return fmt.Errorf("watch: the alarm log belongs to the output of job %s created %s, but the present output was created %s; %s",
			w.Job, w.book.record.Output.Format(time.RFC3339), w.outputCreated.Format(time.RFC3339), recreateHint(w.Job))
	}
	var err error
	from := w.standby.lastRead + 1
	if w.standby.tookOver = w.canTakeOver(ctx); w.standby.tookOver {
		w.Log.Info("taking the alarms over from the followed state", "position", w.fold.Position())
		w.saved.when = time.Now()
		for _, set := range w.standby.sets {
			for name := range set.streams {
				w.fold.MarkChanged(name)
			}
		}
	} else {
		w.discardState()
		if w.fold, err = w.book.readState(ctx); err != nil {
			return err
		}
		w.tail, from = w.fold.Tail(), w.book.record.Last+1
	}
	behind, err := w.book.readTail(ctx, from)
	if err != nil {
		return err
	}
	w.tail = append(w.tail, behind...)
	// A second query: the previous process may have judged and stored more messages since the first
	// query. After the claim it cannot.
	out, err := w.output.Info(ctx)
	if err != nil {
		return fmt.Errorf("watch: NATS stream %s: %w", wire.OutputStream(w.Job), err)
	}
	w.target = target{last: out.State.LastSeq, since: time.Now()}
	if err = w.compareOutput(ctx, w.target.last); err == nil && w.lost != nil && w.standby.tookOver {
		err = fmt.Errorf("%w: %s", errBack, wire.OutputStream(w.Job))
	}
	return err
}

// createLog starts a log with a state that has judged nothing.
func (w *watcher) createLog(ctx context.Context, out *jetstream.StreamInfo) error {
	position := out.State.LastSeq
	if !w.Since.IsZero() {
		var err error
		if position, err = w.lastBefore(ctx, w.Since, out); err != nil {
			return err
		}
	}
	prefix := w.Job + "-" + strconv.FormatInt(w.book.stream.CachedInfo().Created.UnixMilli(), 36)
	if w.book.last > 0 { // the messages of an earlier log were removed
		prefix += "-" + strconv.FormatUint(w.book.last, 10)
	}
	return w.book.saveState(ctx, alarm.NewFold(prefix, position), nil, w.outputCreated)
}

// lastBefore returns the number of the last output message that was stored before a time.
func (w *watcher) lastBefore(ctx context.Context, since time.Time, out *jetstream.StreamInfo) (uint64, error) {
	first, err := store.FirstSince(ctx, w.process.js, out.State, wire.OutputStream(w.Job), since)
	if err != nil {
		return 0, fmt.Errorf("watch: %w", err)
	}
	return first - 1, nil
}

// acceptTail applies the tail without a comparison, because its predictions are missing or are
// published a second time.
func (w *watcher) acceptTail(position uint64) error {
	for _, e := range w.tail {
		if err := w.fold.AcceptEvent(e.Event); err != nil {
			return err
		}
	}
	w.tail = nil
	w.fold.Rewind(position)
	return nil
}
