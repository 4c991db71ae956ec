package operate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// worker is the name that records of a change have.
func (j *change) worker() string { return fmt.Sprintf("resize-%d", j.entry.Resize.Generation+1) }

// first is what the record of a partition begins with that has none yet.
func (j *change) first(input time.Time) wire.Record {
	return wire.Record{Created: wire.CreatedText(input), Identity: j.entry.Identity, Arithmetic: j.entry.Arithmetic}
}

// unchanged makes sure that the job's entry is the one that we read or wrote.
func (j *change) unchanged(ctx context.Context) error {
	_, seq, err := store.ReadEntry(ctx, j.out, j.name)
	if err == nil && seq != j.seq {
		err = fmt.Errorf("pipeline: job %q: %w", j.name, ErrMeanwhile)
	}
	return err
}

// rewrite changes a partition's record, unless change says that there is nothing
// to do. seq is 0 where there is none yet. The entry is looked at after the
// record: whoever changes the entry, and writes each record then, knows that
// nobody writes one for the entry of before.
func (j *change) rewrite(ctx context.Context, p int, change func(now *wire.Record, seq uint64) bool) error {
	com := &store.Committer{JS: j.js, Stream: j.out, Link: j.in.Link, Job: j.name, Part: p}
	var told error
	for {
		r, seq, err := com.Read(ctx)
		switch {
		case errors.Is(err, wire.ErrRecord):
			return err
		case err != nil:
		case !change(&r, seq):
			return nil
		default:
			if err = j.unchanged(ctx); errors.Is(err, ErrMeanwhile) {
				return err
			} else if err != nil {
				break
			}
			if err = j.before(fmt.Sprintf("record %d", p)); err != nil {
				return err
			}
			r.Worker = j.worker()
			if _, err = com.Publish(ctx, r, seq, j.empty); err == nil || store.OvertakenBy(err) {
				continue // it is read again: change says whether it is as it is to be
			}
			if store.IsRefused(err) {
				return fmt.Errorf("pipeline: record on %s: %w", com.Subject(), err)
			}
		}
		if err != nil && told == nil {
			told = err
			j.log.Warn("the server did not answer, trying again", "subject", com.Subject(), "err", err)
		}
		if err := store.Pause(ctx, store.RetryWait); err != nil {
			return fmt.Errorf("pipeline: record on %s: %w", com.Subject(), err)
		}
	}
}
