package operate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// workerName returns the worker name in records of a change.
func (j *change) workerName() string { return fmt.Sprintf("resize-%d", j.entry.Resize.Generation+1) }

// firstRecord returns the initial record of a partition without a record.
func (j *change) firstRecord(input time.Time) wire.Record {
	return wire.Record{Created: wire.CreatedText(input), Identity: j.entry.Identity, Arithmetic: j.entry.Arithmetic}
}

// checkUnchanged requires that the job's entry equals the last entry read or written.
func (j *change) checkUnchanged(ctx context.Context) error {
	_, seq, err := store.ReadEntry(ctx, j.out, j.name)
	if err == nil && seq != j.seq {
		err = fmt.Errorf("pipeline: job %q: %w", j.name, ErrMeanwhile)
	}
	return err
}

// rewriteRecord changes a partition's record, unless change reports no change. seq is 0
// without a record. The entry is read after the record: after a change of the entry and
// of each record, no record is written for the previous entry.
func (j *change) rewriteRecord(ctx context.Context, p int, change func(now *wire.Record, seq uint64) bool) error {
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
			if err = j.checkUnchanged(ctx); errors.Is(err, ErrMeanwhile) {
				return err
			} else if err != nil {
				break
			}
			if err = j.beforeWrite(fmt.Sprintf("record %d", p)); err != nil {
				return err
			}
			r.Worker = j.workerName()
			if _, err = com.Publish(ctx, r, seq, j.empty); err == nil || store.OvertakenBy(err) {
				continue // re-read: change reports whether the record is final
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
