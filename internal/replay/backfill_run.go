package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/inlog"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
)

// Line adds a prediction to the output; in is the number of the input message of this prediction, stored the server's
// storage time of this message (ns).
type Line func(dst []byte, p *codec.Prediction, in uint64, stored int64) ([]byte, error)

// backfillJob is a computation.
type backfillJob struct {
	Path  string // of the predictions
	Head  []byte // the beginning of the file
	Line  Line
	Asked inlog.Asked
	// Plan returns the range of messages, unless the range is known already.
	Plan func(ctx context.Context) (backfillRange, error)
	// Open makes the source, which begins after a message.
	Open  func(ctx context.Context, r backfillRange, after inlog.Place) (inlog.Source, error)
	Shard *shard.Shard

	Rate     float64       // samples per second; 0 = as fast as possible
	Every    time.Duration // between positions, more for large states; negative: after each batch
	Progress func(backfillPosition)
	Begun    func(p backfillPosition, again bool) // the range is known; again: an earlier computation is continued
}

// tooMany unusable messages without a usable message end a computation: later messages would be unusable, too.
const tooMany = 100

// shareForPositions bounds the time for storing positions: large states are stored less often.
const shareForPositions = 20

// paced is the longest time of a batch's samples at a given rate, as parts of a second.
const paced = 10

// runningBackfill is a backfillJob at work.
type runningBackfill struct {
	job    *backfillJob
	out    *output
	direct *shard.Direct
	src    inlog.Source
	at     backfillPosition
	lines  []byte

	removed uint64 // before this source
	savedAt time.Time
	took    time.Duration // to save
	begun   time.Time     // of the pace
	samples int64         // since then
	ended   error         // of the source
}

// Run computes until the source ends, and returns the progress. When ctx ends, or on an error of the source, Run
// stores its position and returns: the same Job continues from this position.
func (j *backfillJob) Run(ctx context.Context) (backfillPosition, error) {
	out, at, encoded, err := openOutput(j.Path)
	if err != nil {
		return backfillPosition{}, err
	}
	defer out.leave()
	r := &runningBackfill{job: j, out: out, begun: time.Now()}
	again := at != nil
	if again {
		if differs := j.Asked.Differs(at.Asked); differs != "" {
			return *at, fmt.Errorf("backfill: %s: %w: %s", partPath(j.Path), ErrOther, differs)
		}
		r.at, r.removed = *at, at.Done.Removed
	} else {
		r.at.Asked = j.Asked
		if r.at.Range, err = j.Plan(ctx); err != nil {
			return r.at, err
		}
	}
	if r.direct, err = shard.NewDirect(j.Shard, encoded); err != nil {
		return r.at, fmt.Errorf("backfill: %s: %w", positionPath(j.Path), err)
	}
	// Messages before the range only advance states.
	st := r.direct.State()
	st.ReplayTo = max(r.at.Range.First, 1) - 1
	if r.at.Range.Begin > 1 { // see inlog.Batches.Cut
		st.Asked = r.at.Range.First
	}
	if err := out.goOn(r.at.Bytes); err != nil {
		return r.at, err
	}
	if !again {
		if err := r.begin(); err != nil {
			return r.at, err
		}
	}
	if j.Begun != nil {
		j.Begun(r.at, again)
	}
	if !r.at.Over {
		if r.src, err = j.Open(ctx, r.at.Range, r.at.Next); err != nil {
			return r.at, err
		}
		if c, ok := r.src.(io.Closer); ok {
			defer c.Close()
		}
		if err := r.all(ctx); err != nil {
			return r.at, err
		}
	}
	return r.at, out.complete()
}

// begin writes the beginning of the file, after an empty position: so a file with content always has a position.
func (r *runningBackfill) begin() error {
	if err := r.save(); err != nil {
		return err
	}
	if err := r.out.write(r.job.Head); err != nil {
		return err
	}
	return r.save()
}

// all works batch by batch.
func (r *runningBackfill) all(ctx context.Context) error {
	b := &inlog.Batches{Source: r.src, Direct: r.direct, Cut: r.at.Range.Begin > 1, Read: r.read}
	for {
		if err := r.batch(ctx, b); err != nil {
			return err
		}
		r.at.Over = errors.Is(r.ended, io.EOF)
		if err := r.useless(); err != nil {
			return err
		}
		if r.job.Progress != nil {
			r.job.Progress(r.at)
		}
		if r.ended != nil || r.job.Every < 0 || time.Since(r.savedAt) > max(r.job.Every, shareForPositions*r.took) {
			if err := r.save(); err != nil {
				return err
			}
		}
		if r.at.Over {
			return nil
		}
		if r.ended != nil {
			return r.ended
		}
		r.pause(ctx)
	}
}

// useless is the error of a computation without a usable message. Its output is removed: a repeated run would end the
// same way.
func (r *runningBackfill) useless() error {
	d := &r.at.Done
	if d.Unusable == 0 || d.Unusable < d.Messages || d.Messages < tooMany && !r.at.Over {
		return nil
	}
	err := fmt.Errorf("backfill: %w, none of the first %d, the first because: %s", ErrUnusable, d.Messages, d.Reason)
	return errors.Join(err, os.Remove(positionPath(r.out.path)), os.Remove(partPath(r.out.path)))
}

// batch computes the messages of a batch, and writes their predictions.
func (r *runningBackfill) batch(ctx context.Context, b *inlog.Batches) (err error) {
	if r.ended, err = b.Fill(ctx); err != nil {
		return err
	}
	samples := r.direct.Samples()
	r.at.Done.Removed = r.removed + r.src.Removed()
	r.at.Done.Samples += uint64(samples)
	r.samples += int64(samples)
	return r.write()
}

// read counts a message, and keeps batches short if a rate is set.
func (r *runningBackfill) read(m *inlog.Message) bool {
	r.at.Next = inlog.Place{Seq: m.Seq, Stored: m.Message.Stored}
	if m.Seq < r.at.Range.First {
		r.at.Done.Before++
	} else {
		r.at.Done.Messages++
	}
	return r.job.Rate <= 0 || float64(r.direct.Samples()) < r.job.Rate/paced
}

// write computes the batch and writes its predictions.
func (r *runningBackfill) write() error {
	out, dead, err := r.direct.FinishBatch()
	if err != nil {
		return err
	}
	for _, d := range dead {
		if r.at.Done.Unusable++; r.at.Done.Reason == "" {
			r.at.Done.Reason = fmt.Sprintf("message %d of key %q: %s", d.Msg.Seq, d.Msg.Key, d.Reason)
		}
	}
	r.lines = r.lines[:0]
	for i := range out.Preds {
		if r.lines, err = r.job.Line(r.lines, &out.Preds[i], min(out.At[i], r.at.Next.Seq), out.Stored[i]); err != nil {
			return err
		}
	}
	r.at.Done.Predictions += uint64(len(out.Preds))
	return r.out.write(r.lines)
}

// save stores the position.
func (r *runningBackfill) save() error {
	began := time.Now()
	encoded, err := r.direct.Encode()
	if err == nil {
		err = r.out.save(&r.at, encoded)
	}
	r.savedAt = time.Now()
	r.took = r.savedAt.Sub(began)
	return err
}

// pause keeps to the rate.
func (r *runningBackfill) pause(ctx context.Context) {
	if r.job.Rate <= 0 {
		return
	}
	due := r.begun.Add(time.Duration(float64(r.samples) / r.job.Rate * float64(time.Second)))
	select {
	case <-time.After(time.Until(due)):
	case <-ctx.Done():
	}
}
