package loop

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/learn"
)

// runRounds runs one round, or repeated rounds.
func (l *learning) runRounds(ctx context.Context) error {
	fitted, err := l.runRound(ctx, 0)
	if err != nil || !l.opt.follow {
		return err
	}
	for {
		select {
		case <-time.After(l.opt.every):
		case <-ctx.Done():
			return ctx.Err()
		}
		next, err := l.runRound(ctx, fitted)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			l.app.Say("warning: %v; tried again in %v", err, l.opt.every)
		default:
			fitted = next
		}
	}
}

// runRound reads new data, and fits if there are enough labels beyond the fitted labels.
// It returns the number of fitted labels.
func (l *learning) runRound(ctx context.Context, fitted int) (int, error) {
	book, err := learn.ReadLabels(ctx, l.js, l.conf.Job)
	if err != nil {
		return fitted, err
	}
	if !l.opt.solve {
		if n := l.store.MarkNeeded(learn.JoinLabels(l.store, book, l.model.Policy, l.without).Examples); n > 0 {
			l.app.Say("features of %d sequences are in sums alone, and are computed again from the log", n)
		}
		if err := l.readLog(ctx, book); err != nil {
			return fitted, err
		}
	}
	if fitted > 0 && book.Read < fitted+l.opt.after {
		return fitted, nil
	}
	j := learn.JoinLabels(l.store, book, l.model.Policy, l.without)
	if few := tooFew(j.Report); few != nil {
		if err := l.printResult(j, nil); err != nil {
			return fitted, err
		}
		if l.opt.follow {
			l.app.Say("nothing is learned yet: %v", few)
			return fitted, nil
		}
		return fitted, few
	}
	if err := l.fitReadout(ctx, book, j); err != nil {
		return fitted, err
	}
	if err := l.compactFeatures(ctx, book); err != nil {
		return fitted, err
	}
	return max(1, book.Read), nil
}

// tooFew returns the reason why training is impossible; nil if possible.
func tooFew(r learn.Report) error {
	switch {
	case r.Current == 0:
		return errors.New("the job has no labels: add some with eusn-stream labels add or a client")
	case r.Sequences == 0:
		return fmt.Errorf("none of %d labels is about a sequence that can be learned from", r.Current)
	case len(r.Classes) < 2:
		return fmt.Errorf("all %d labeled sequences are of one class: want labels of at least two", r.Sequences)
	}
	return nil
}
