package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

var (
	// ErrPastGone reports that the log has lost messages that the state depends on.
	ErrPastGone = errors.New("the state cannot be computed any more")
	// ErrDigest reports that the computed state differs from the digest in a record.
	ErrDigest = errors.New("the state does not come out as it was")
)

// AsOf selects a state of a partition: after input message To, or after the last message stored before Before.
type AsOf struct {
	Partition int
	To        uint64
	Before    time.Time // used if To is 0
	Progress  func(PastDone)
}

// StateAsOf is an earlier state of a partition.
type StateAsOf struct {
	Past   PastDone `json:"-"`
	InSeq  uint64   `json:"in_seq"` // the partition's last input message in it
	Digest string   `json:"digest"`
	// Verified reports that the record in output message Output has this digest.
	Verified bool   `json:"verified"`
	Output   uint64 `json:"output,omitempty"`
	Next     uint64 `json:"next_verifiable,omitempty"` // without such a record: the next input message with a record's digest; 0 = none

	Encoded []byte `json:"-"` // the state, as in a snapshot
}

// ComputeState computes an earlier state of a partition: from the newest snapshot before the state, or from the first
// message of the log. If a record has a different digest of the state, the error is ErrDigest. The job's Dial is not
// used. Nothing is published.
func ComputeState(ctx context.Context, js jetstream.JetStream, job *pipeline.Job, o AsOf) (StateAsOf, error) {
	p, err := openPast(ctx, js, job, o.Partition, "")
	if err != nil {
		return StateAsOf{}, err
	}
	defer p.shard.Close()
	if err := p.place(ctx, &o); err != nil {
		return StateAsOf{}, err
	}
	return p.state(ctx, o)
}

// place makes a message of a time.
func (p *past) place(ctx context.Context, o *AsOf) error {
	info, err := p.in.Info(ctx, o.To)
	if err != nil {
		return err
	}
	if o.To == 0 {
		first, err := store.FirstSince(ctx, p.stored.JS, info.State, p.in.Name(), o.Before)
		if err != nil {
			return err
		}
		o.To = max(first, 1) - 1
	}
	if last := info.State.LastSeq; o.To > last {
		return fmt.Errorf("pipeline: %s ends with message %d, there is no message %d yet", p.in.Name(), last, o.To)
	}
	return nil
}

// state computes a state.
func (p *past) state(ctx context.Context, o AsOf) (a StateAsOf, err error) {
	info, err := p.in.Info(ctx, o.To)
	if err != nil {
		return a, err
	}
	a.Past = p.donePast(info, o.To)
	if err := p.beginNewest(ctx, &a.Past); err != nil {
		return a, err
	}
	if err := p.advance(ctx, o, &a.Past, 0); err != nil {
		return a, err
	}
	st := p.direct.State()
	a.InSeq, a.Digest = st.Done, st.Sum.String()
	if a.Encoded, err = p.direct.Encode(); err != nil {
		return a, err
	}
	at, next, err := p.marks(ctx, a.InSeq+1)
	if err != nil {
		return a, err
	}
	a.Next = next.record.Mark.Seq
	return a, a.verify(p.part, at)
}

// advance reads on to the requested message. Messages up to number behind are skipped.
func (p *past) advance(ctx context.Context, o AsOf, done *PastDone, behind uint64) error {
	_, mark, err := p.marks(ctx, o.To)
	if err != nil {
		return err
	}
	st := p.direct.State()
	st.ReplayTo = o.To // nothing is predicted
	if st.Losses, err = state.ParseLosses(mark.record.Losses); err != nil {
		return fmt.Errorf("pipeline: output message %d: header %s: %w", mark.seq, wire.HeaderLosses, err)
	}
	compute := func() error { _, _, err := p.direct.FinishBatch(); return err }
	return p.read(ctx, done, behind, compute, o.Progress)
}

// beginNewest is begin with the newest snapshot, and without partly known states.
func (p *past) beginNewest(ctx context.Context, done *PastDone) error {
	record, err := p.stored.Record(ctx, p.part)
	if err != nil {
		return err
	}
	p.only = p.in.Pattern.InputFilter(p.in.Job, p.part)
	names, unread := p.snapshots(ctx, record, done, done.Last+1)
	done.Unread = unread
	slices.Reverse(names)
	if p.beginFrom(ctx, names, done) {
		return nil
	}
	switch {
	case record.Generation > 0:
		err = fmt.Errorf("pipeline: the job's partitions were changed (job resize, job replace), and of the states since only those from its newest snapshot on can be computed: the store has none of partition %d after message %d or before: %w", p.part, done.Last, ErrPastGone)
	case !done.Whole():
		err = fmt.Errorf("pipeline: the log begins with message %d, and the store has no snapshot of partition %d that holds what came before (the state after message %d is wanted): %w", done.First, p.part, done.Last, ErrPastGone)
	}
	if err != nil {
		if done.Unread != nil {
			err = fmt.Errorf("%w (%w)", err, done.Unread)
		}
		return err
	}
	p.direct, err = shard.NewDirectOf(p.shard, p.part, nil)
	return err
}

// marked is a record with a digest, and the record's output number.
type marked struct {
	record wire.Record
	seq    uint64
}

// marks returns the last record of a partition with a digest of a state before message to was taken, and the first
// record with a later digest; zero values if none exist. The messages of digests never fall. If a message has two
// digests, the number of partitions was changed after this message: the later digest belongs to the present
// partition.
func (p *past) marks(ctx context.Context, to uint64) (before, found marked, err error) {
	info, err := p.stored.Out.Info(ctx)
	if err != nil {
		return before, found, fmt.Errorf("pipeline: %w", err)
	}
	low, high := info.State.FirstSeq, info.State.LastSeq+1
	subject := wire.OutputSubject(p.stored.Name, p.part)
	for low < high {
		mid := low + (high-low)/2
		raw, err := p.stored.Out.GetMsg(ctx, mid, jetstream.WithGetMsgSubject(subject))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			high = mid
			continue
		}
		if err != nil {
			return before, found, fmt.Errorf("pipeline: records of partition %d: %w", p.part, err)
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

// verify compares the digest with the digest of a record, if the record is about the same state: after the same
// message of the partition.
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
