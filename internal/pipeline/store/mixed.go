package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Mixed are the messages of a replicated input that were stored while the number of
// partitions changed: each server assigns a message to a partition when it stores its
// copy, and the servers do not change the number at the same message. So copies
// disagree, and readers of different servers see different partitions. The key is the
// same in all copies: the partition of these messages is the partition of the key under
// the previous number.
type Mixed struct {
	after, to uint64 // messages after `after`, up to message to
	before    int    // partitions
	messages  map[int][]uint64
	elsewhere map[int][]int // partitions under which copies may store a partition's messages
}

// mixedPatience is how long the server may take for the next message.
const mixedPatience = time.Minute

// ReadMixed finds the keys of the messages after `after` up to message to, while the
// number of partitions changes from before to then.
func (r *Input) ReadMixed(ctx context.Context, after, to uint64, before, then int) (*Mixed, error) {
	m := &Mixed{after: after, to: to, before: before, messages: map[int][]uint64{}, elsewhere: map[int][]int{}}
	if to <= after {
		return m, nil
	}
	cons, err := r.Stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: after + 1, HeadersOnly: true})
	if err != nil {
		return nil, fmt.Errorf("pipeline: input not read: %w", err)
	}
	err = natsclient.EachStored(ctx, cons, mixedPatience, func(msg jetstream.Msg, meta *jetstream.MsgMetadata) (bool, error) {
		if meta.Sequence.Stream > to {
			return false, nil
		}
		if _, key, ok := r.PlaceOf(msg.Subject()); ok {
			p, other := r.Pattern.PartitionOf(key, before), r.Pattern.PartitionOf(key, then)
			m.messages[p] = append(m.messages[p], meta.Sequence.Stream)
			if other != p && !slices.Contains(m.elsewhere[p], other) {
				m.elsewhere[p] = append(m.elsewhere[p], other)
			}
		}
		return meta.Sequence.Stream < to, nil
	})
	if err != nil {
		return nil, fmt.Errorf("pipeline: input not read: %w", err)
	}
	return m, nil
}

// PlaceOf takes the subject of an input message apart.
func (r *Input) PlaceOf(subject string) (p int, key string, ok bool) {
	rest, ok := strings.CutPrefix(subject, r.Job+".in.")
	if !ok {
		return 0, "", false
	}
	number, key, ok := strings.Cut(rest, ".")
	p, err := strconv.Atoi(number)
	return p, key, ok && err == nil
}

// Filters match a partition's messages of the input, and perhaps others: see Has.
func (r *Input) Filters(part int) []string {
	all := []string{r.Pattern.InputFilter(r.Job, part)}
	if r.Mixed != nil {
		for _, p := range r.Mixed.elsewhere[part] {
			all = append(all, r.Pattern.InputFilter(r.Job, p))
		}
	}
	return all
}

// Has reports whether a message matched by the filters belongs to the partition.
func (r *Input) Has(part int, seq uint64, subject string) bool {
	m := r.Mixed
	if m == nil {
		return true
	}
	p, key, ok := r.PlaceOf(subject)
	if ok && seq > m.after && seq <= m.to {
		p = r.Pattern.PartitionOf(key, m.before)
	}
	return ok && p == part
}

// nextMixed is Next where copies disagree.
func (r *Input) nextMixed(ctx context.Context, part int, known uint64) (wire.Place, error) {
	m := r.Mixed
	if known < m.after {
		if at, err := r.nextMessage(ctx, part, known); err != nil || at.Seq > 0 && at.Seq <= m.after {
			return at, err
		}
	}
	all := m.messages[part]
	first, _ := slices.BinarySearch(all, known+1)
	for _, seq := range all[first:] {
		try, cancel := r.Link.Attempt(ctx)
		msg, err := r.Stream.GetMsg(try, seq)
		cancel()
		if err == nil {
			return wire.Place{Seq: seq, Stored: msg.Time.UnixNano()}, nil
		}
		if !errors.Is(err, jetstream.ErrMsgNotFound) { // removed
			return wire.Place{}, err
		}
	}
	return r.nextMessage(ctx, part, max(known, m.to))
}
