package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/pipeline/internal/inlog"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/shard"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/state"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/store"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
)

var (
	// ErrPastGone is a state of which the log has lost what it came from.
	ErrPastGone = errors.New("the state cannot be computed any more")
	// ErrDigest is a state that does not come out as a record says that it was.
	ErrDigest = errors.New("the state does not come out as it was")
)

// AsOf is which state of a partition is wanted: that after the input message To, or
// after what had been stored before Before.
type AsOf struct {
	Partition int
	To        uint64
	Before    time.Time // where To is 0
	Progress  func(PastDone)
}

// StateAsOf is a state of a partition as it was.
type StateAsOf struct {
	Past   PastDone `json:"-"`
	InSeq  uint64   `json:"in_seq"` // the partition's last input message in it
	Digest string   `json:"digest"`
	// Verified: the record in output message Output says that the state had this
	// digest.
	Verified bool   `json:"verified"`
	Output   uint64 `json:"output,omitempty"`
	Next     uint64 `json:"next_verifiable,omitempty"` // where no record does: after this input message one does; 0 = none

	Encoded []byte `json:"-"` // the state, as in a snapshot
}

// StateAsOf computes the state that a partition had: from the newest snapshot before it
// that there is, or from the first message of the log. Where a record says which digest
// the state had, another one is ErrDigest. Config, Model and NewEngine are those of the
// stage. Nothing is published.
func (s *Stage) StateAsOf(ctx context.Context, js jetstream.JetStream, o AsOf) (a StateAsOf, err error) {
	b, sh, err := s.past(ctx, js)
	if err != nil {
		return a, err
	}
	defer sh.Close()
	sh.Machine.Shape.Width = 0 // the stage's own policy on missing values
	info, err := b.in.Info(ctx, o.To)
	if err != nil {
		return a, err
	}
	log := info.State
	if o.To == 0 {
		first, err := store.FirstSince(ctx, js, log, b.in.Name(), o.Before)
		if err != nil {
			return a, err
		}
		o.To = max(first, 1) - 1
	}
	if o.To > log.LastSeq {
		return a, fmt.Errorf("pipeline: %s ends with message %d, there is no message %d yet", b.in.Name(), log.LastSeq, o.To)
	}
	a.Past = PastDone{Created: info.Created, First: log.FirstSeq, Last: o.To, Deleted: log.NumDeleted, begins: b.in.From}
	d, only, err := b.beginNewest(ctx, sh, o.Partition, &a.Past)
	if err != nil {
		return a, err
	}
	mark, err := b.markAt(ctx, o.Partition, o.To)
	if err != nil {
		return a, err
	}
	st := d.State()
	st.ReplayTo = o.To // nothing is predicted
	if st.Losses, err = state.ParseLosses(mark.record.Losses); err != nil {
		return a, fmt.Errorf("pipeline: output message %d: header %s: %w", mark.seq, wire.HeaderLosses, err)
	}
	r := reading{log: &inlog.Log{Input: b.in, JS: js, Log: b.run.log, Only: only}, direct: d, done: &a.Past}
	r.computed = func() error {
		_, _, err := d.Finish()
		if err == nil && o.Progress != nil {
			o.Progress(a.Past)
		}
		return err
	}
	if err := r.run(ctx); err != nil {
		return a, err
	}
	a.InSeq, a.Digest = st.Done, st.Sum.String()
	if a.Encoded, err = d.Encode(); err != nil {
		return a, err
	}
	if mark, err = b.markAt(ctx, o.Partition, a.InSeq); err != nil {
		return a, err
	}
	return a, a.verify(o.Partition, mark, uint64(sh.Machine.Shape.Version()))
}

// beginNewest is begin, with the newest snapshot that there is, and without a state
// that is only partly known.
func (b *backfilling) beginNewest(ctx context.Context, sh *shard.Shard, part int, done *PastDone) (*shard.Direct, string, error) {
	record, err := b.job.Record(ctx, part)
	if err != nil {
		return nil, "", err
	}
	only := b.in.Pattern.InputFilter(b.in.Job, part)
	names, unread := b.snapshots(ctx, part, record, done)
	done.Unread = unread
	for i := range names {
		d, err := b.from(ctx, sh, part, names[len(names)-1-i], done)
		if err == nil {
			return d, only, nil
		}
		done.Unread = err
	}
	switch {
	case record.Generation > 0:
		err = fmt.Errorf("pipeline: the job's number of partitions has changed, and the store has no snapshot of partition %d after message %d or before: %w", part, done.Last, ErrPastGone)
	case !done.Whole():
		err = fmt.Errorf("pipeline: the log begins with message %d, and the store has no snapshot of partition %d that holds what came before (the state after message %d is wanted): %w", done.First, part, done.Last, ErrPastGone)
	}
	if err != nil {
		if done.Unread != nil {
			err = fmt.Errorf("%w (%w)", err, done.Unread)
		}
		return nil, "", err
	}
	d, err := shard.NewDirectOf(sh, part, nil)
	return d, only, err
}

// marked is a record with a digest, and its number in the output.
type marked struct {
	record wire.Record
	seq    uint64
}

// markAt is the first record of a partition with the digest of a state after message
// to or later; the zero one if there is none. Digests' messages never fall.
func (b *backfilling) markAt(ctx context.Context, part int, to uint64) (found marked, err error) {
	info, err := b.job.Out.Info(ctx)
	if err != nil {
		return found, fmt.Errorf("pipeline: %w", err)
	}
	low, high := info.State.FirstSeq, info.State.LastSeq+1
	subject := wire.OutputSubject(b.job.Name, part)
	for low < high {
		mid := low + (high-low)/2
		raw, err := b.job.Out.GetMsg(ctx, mid, jetstream.WithGetMsgSubject(subject))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			high = mid
			continue
		}
		if err != nil {
			return found, fmt.Errorf("pipeline: records of partition %d: %w", part, err)
		}
		r, err := wire.ParseRecord(raw.Header, raw.Subject, raw.Sequence)
		if err != nil {
			return found, err
		}
		if r.Mark.Seq >= to {
			found, high = marked{r, raw.Sequence}, mid
			continue
		}
		low = raw.Sequence + 1
	}
	return found, nil
}

// verify compares the digest with the one that the first record from there on has, if
// that is of the same state: after the same message of the partition.
func (a *StateAsOf) verify(part int, m marked, version uint64) error {
	mark := m.record.Mark
	if mark.Seq != a.InSeq || mark.Seq == 0 {
		a.Next = mark.Seq
		return nil
	}
	if mark.Version != version {
		return nil
	}
	a.Output = m.seq
	if a.Verified = mark.Digest.String() == a.Digest; !a.Verified {
		return fmt.Errorf("pipeline: partition %d after input message %d: %w: the digest is %s, output message %d says %s: the model, input.non_finite, input.reorder or stage.max_streams differ from the stage's, or input was removed or changed", part, a.InSeq, ErrDigest, a.Digest, m.seq, mark.Digest)
	}
	return nil
}
