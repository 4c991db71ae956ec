package operate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// switchMapping makes the server assign keys to the new partitions, and finds the last
// message assigned to the old partitions. The server changes the mapping between two
// messages; nothing is refused or delayed. For a replicated input, each server changes
// the mapping at a different message: the cut then follows all changes; see store.Mixed.
func (j *change) switchMapping(ctx context.Context) error {
	r := j.entry.Resize
	ask, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s, err := j.js.Stream(ask, wire.InputStream(j.name))
	if err != nil {
		return fmt.Errorf("pipeline: %w", err)
	}
	c := s.CachedInfo().Config
	if c.SubjectTransform == nil {
		return fmt.Errorf("pipeline: NATS stream %s has no partitions: it is not a stage's", c.Name)
	}
	if err := j.beforeWrite("mapping"); err != nil {
		return err
	}
	to := *c.SubjectTransform
	to.Destination = store.Repartitioned(to.Destination, r.To)
	c.SubjectTransform = &to
	// Also sent if the server reports the new transform: after an update that failed on a full disk,
	// nats-server 2.15.3 uses the new transform, and the file has the previous one.
	if _, err := j.js.UpdateStream(ask, c); err != nil {
		return fmt.Errorf("pipeline: NATS stream %s: its subject transform cannot be changed: %w; allow this login to update it (docs/nats.md), or run this command with one that may", c.Name, err)
	}
	info, err := j.in.Stream.Info(ask)
	if err != nil {
		return fmt.Errorf("pipeline: %w", err)
	}
	if got := store.Destination(info.Config); got != store.Repartitioned(got, r.To) {
		return fmt.Errorf("pipeline: NATS stream %s still has the subject transform %s: run the command again", c.Name, got)
	}
	if r.Mixed = isReplicated(info); r.Mixed {
		if r.Cut, err = j.compareCopies(ctx, 0); err == nil {
			_, err = j.in.Info(ctx, r.Cut) // the leader may lag
		}
	} else {
		r.Cut, err = j.findCut(ctx, s, r.After, info.State.LastSeq)
	}
	if err != nil {
		return err
	}
	if r.Cut, r.Stored, err = j.storedAt(ctx, r.Cut); err != nil {
		return err
	}
	r.Step = wire.ResizeDrain
	return j.noteStep(ctx, r)
}

// patience is how long the server may take for one answer. The input between two
// messages may be long, so the limit applies to each message.
const patience = time.Minute

// toldEvery is the number of messages between progress reports of the search for the cut.
const toldEvery = 1 << 10

// lookBehind is the number of messages after the first message of a new partition in
// which a message of an old partition is searched.
const lookBehind = 10_000

// findCut returns the last of the input messages after..last that may belong to an old
// partition: the message before the first unambiguous message of a new partition.
// Messages whose key has the same partition before and after are ambiguous.
func (j *change) findCut(ctx context.Context, s jetstream.Stream, after, last uint64) (uint64, error) {
	if last <= after {
		return last, nil
	}
	cons, err := s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: after + 1, HeadersOnly: true})
	if err != nil {
		return 0, fmt.Errorf("pipeline: input not read: %w", err)
	}
	r, n := j.entry.Resize, 0
	c := cutSearch{in: j.in, from: r.Partitions, to: r.To, cut: last}
	var mixed error
	err = natsclient.EachStored(ctx, cons, patience, func(m jetstream.Msg, meta *jetstream.MsgMetadata) (bool, error) {
		seq := meta.Sequence.Stream
		if n++; n%toldEvery == 0 {
			j.reportStep(r.Step, int(min(seq, last)-after), int(last-after))
		}
		if seq > last {
			return false, nil
		}
		mixed = c.examineMessage(seq, m.Subject())
		return mixed == nil && seq < last && c.looked <= lookBehind, nil
	})
	if err != nil {
		return 0, fmt.Errorf("pipeline: input not read: %w", err)
	}
	return c.cut, mixed
}

// cutSearch searches the cut between the messages of the old and the new partitions.
type cutSearch struct {
	in       *store.Input
	from, to int    // numbers of partitions
	cut      uint64 // last message that may belong to an old partition
	switched bool   // a message of a new partition was found
	looked   int    // messages examined since
}

func (c *cutSearch) examineMessage(seq uint64, subject string) error {
	if p, key, ok := c.in.PlaceOf(subject); ok {
		before, then := c.in.Pattern.PartitionOf(key, c.from), c.in.Pattern.PartitionOf(key, c.to)
		switch {
		case before == then:
		case p == then && !c.switched:
			c.cut, c.switched = seq-1, true
		case p == before && c.switched:
			return fmt.Errorf("pipeline: input message %d on %s: %w: wait a minute, and run the command again", seq, subject, ErrMixed)
		}
	}
	if c.switched {
		c.looked++
	}
	return nil
}

// storedAt returns the storage time of message seq, or of the previous remaining message:
// readers starting at the message compare the time. 0 if the input's beginning has passed
// the message.
func (j *change) storedAt(ctx context.Context, seq uint64) (uint64, int64, error) {
	for at := seq; at > 0; at-- {
		m, err := j.in.Stream.GetMsg(ctx, at)
		if err == nil {
			return at, m.Time.UnixNano(), nil
		}
		if !errors.Is(err, jetstream.ErrMsgNotFound) {
			return 0, 0, fmt.Errorf("pipeline: input message %d: %w", at, err)
		}
		info, err := j.in.Stream.Info(ctx)
		if err != nil {
			return 0, 0, fmt.Errorf("pipeline: %w", err)
		}
		if info.State.FirstSeq > at {
			return seq, 0, nil
		}
	}
	return seq, 0, nil
}
