package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/inlog"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
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
func (s *Stage) StateAsOf(ctx context.Context, js jetstream.JetStream, o AsOf) (StateAsOf, error) {
	r, err := s.newPastStates(ctx, js, o.Partition)
	if err != nil {
		return StateAsOf{}, err
	}
	defer r.shard.Close()
	if err := r.place(ctx, &o); err != nil {
		return StateAsOf{}, err
	}
	return r.state(ctx, o)
}

// pastStates computes states of a partition as they were.
type pastStates struct {
	b      *backfilling
	js     jetstream.JetStream
	shard  *shard.Shard
	part   int
	direct *shard.Direct // of the state that was computed last
	only   string        // see backfilling.begin
}

func (s *Stage) newPastStates(ctx context.Context, js jetstream.JetStream, part int) (*pastStates, error) {
	b, sh, err := s.past(ctx, js, "")
	if err != nil {
		return nil, err
	}
	return &pastStates{b: b, js: js, shard: sh, part: part}, nil
}

// place makes a message of a time.
func (r *pastStates) place(ctx context.Context, o *AsOf) error {
	info, err := r.b.in.Info(ctx, o.To)
	if err != nil {
		return err
	}
	if o.To == 0 {
		first, err := store.FirstSince(ctx, r.js, info.State, r.b.in.Name(), o.Before)
		if err != nil {
			return err
		}
		o.To = max(first, 1) - 1
	}
	if last := info.State.LastSeq; o.To > last {
		return fmt.Errorf("pipeline: %s ends with message %d, there is no message %d yet", r.b.in.Name(), last, o.To)
	}
	return nil
}

// state computes one.
func (r *pastStates) state(ctx context.Context, o AsOf) (a StateAsOf, err error) {
	info, err := r.b.in.Info(ctx, o.To)
	if err != nil {
		return a, err
	}
	a.Past = PastDone{Created: info.Created, First: info.State.FirstSeq, Last: o.To, Deleted: info.State.NumDeleted, begins: r.b.in.From}
	if r.direct, r.only, err = r.b.beginNewest(ctx, r.shard, r.part, &a.Past); err != nil {
		return a, err
	}
	if err := r.read(ctx, o, &a.Past, 0); err != nil {
		return a, err
	}
	st := r.direct.State()
	a.InSeq, a.Digest = st.Done, st.Sum.String()
	if a.Encoded, err = r.direct.Encode(); err != nil {
		return a, err
	}
	at, next, err := r.b.marks(ctx, r.part, a.InSeq+1)
	if err != nil {
		return a, err
	}
	a.Next = next.record.Mark.Seq
	return a, a.verify(r.part, at)
}

// read goes on to the message that is asked for. Nothing up to message behind is read.
func (r *pastStates) read(ctx context.Context, o AsOf, done *PastDone, behind uint64) error {
	_, mark, err := r.b.marks(ctx, r.part, o.To)
	if err != nil {
		return err
	}
	st := r.direct.State()
	st.ReplayTo = o.To // nothing is predicted
	if st.Losses, err = state.ParseLosses(mark.record.Losses); err != nil {
		return fmt.Errorf("pipeline: output message %d: header %s: %w", mark.seq, wire.HeaderLosses, err)
	}
	log := reading{log: &inlog.Log{Input: r.b.in, JS: r.js, Log: r.b.run.log, Only: r.only}, direct: r.direct, done: done, behind: behind}
	log.computed = func() error {
		_, _, err := r.direct.Finish()
		if err == nil && o.Progress != nil {
			o.Progress(*done)
		}
		return err
	}
	return log.run(ctx)
}

// beginNewest is begin, with the newest snapshot that there is, and without a state
// that is only partly known.
func (b *backfilling) beginNewest(ctx context.Context, sh *shard.Shard, part int, done *PastDone) (*shard.Direct, string, error) {
	record, err := b.job.Record(ctx, part)
	if err != nil {
		return nil, "", err
	}
	only := b.in.Pattern.InputFilter(b.in.Job, part)
	names, unread := b.snapshots(ctx, part, record, done, done.Last+1)
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
		err = fmt.Errorf("pipeline: the job's partitions were changed (job resize, job replace), and of the states since only those from its newest snapshot on can be computed: the store has none of partition %d after message %d or before: %w", part, done.Last, ErrPastGone)
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

// marks are the last record of a partition with the digest of a state before message to
// was taken, and the first with one after that; zero ones where there are none. Digests'
// messages never fall. Where one message has two digests, the number of partitions has
// changed behind it: the last is that of the partition as it is now.
func (b *backfilling) marks(ctx context.Context, part int, to uint64) (before, found marked, err error) {
	info, err := b.job.Out.Info(ctx)
	if err != nil {
		return before, found, fmt.Errorf("pipeline: %w", err)
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
			return before, found, fmt.Errorf("pipeline: records of partition %d: %w", part, err)
		}
		r, err := wire.ParseRecord(raw.Header, raw.Subject, raw.Sequence)
		if err != nil {
			return before, found, err
		}
		if r.Mark.Seq >= to {
			found, high = marked{r, raw.Sequence}, mid
			continue
		}
		before, low = marked{r, raw.Sequence}, raw.Sequence+1
	}
	return before, found, nil
}

// verify compares the digest with the one that a record has, if that is of the same
// state: after the same message of the partition.
func (a *StateAsOf) verify(part int, m marked) error {
	mark := m.record.Mark
	if mark.Seq != a.InSeq || mark.Seq == 0 {
		return nil
	}
	a.Output, a.Next = m.seq, 0
	if a.Verified = mark.Digest.String() == a.Digest; !a.Verified {
		return fmt.Errorf("pipeline: partition %d after input message %d: %w: the digest is %s, output message %d says %s: the model, input.non_finite, input.reorder or stage.max_streams differ from the stage's, or input was removed or changed", part, a.InSeq, ErrDigest, a.Digest, m.seq, mark.Digest)
	}
	return nil
}
