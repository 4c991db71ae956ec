package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// StatesBetween is two states of a partition, and the input of its streams between both.
type StatesBetween struct {
	From StateAsOf `json:"from"`
	To   StateAsOf `json:"to"`
	// Streams are the streams with input, by key and name; none if Uncounted is set.
	Streams []*Passed `json:"-"`
	// Uncounted is the reason for unknown counts: the log has lost messages.
	Uncounted string `json:"uncounted,omitempty"`
}

// Passed is the input of a stream between two places of the log. Sequences are counted for each state of the stream:
// overlapping windows have several.
type Passed = shard.Passed

// CompareStates computes two states of a partition, each as ComputeState does, and counts the input of its streams
// between both. from must not be later than to; the partition is that of from. If a state differs from a record's
// digest, the error is ErrDigest, and both states are returned.
func CompareStates(ctx context.Context, js jetstream.JetStream, job *pipeline.Job, from, to AsOf) (b StatesBetween, err error) {
	to.Partition = from.Partition
	wrong := b.computeFrom(ctx, js, job, &from, &to)
	if wrong != nil && !errors.Is(wrong, ErrDigest) {
		return b, wrong
	}
	b.To, err = ComputeState(ctx, js, job, to)
	if err == nil {
		err = wrong
	}
	return b, err
}

// computeFrom computes the first state, and counts up to the second.
func (b *StatesBetween) computeFrom(ctx context.Context, js jetstream.JetStream, job *pipeline.Job, from, to *AsOf) error {
	p, err := openPast(ctx, js, job, from.Partition, "")
	if err != nil {
		return err
	}
	defer p.shard.Close()
	for _, o := range []*AsOf{from, to} {
		if err := p.place(ctx, o); err != nil {
			return err
		}
	}
	if from.To > to.To {
		return fmt.Errorf("pipeline: input message %d is before message %d: want the earlier one first", to.To, from.To)
	}
	wrong := error(nil)
	if b.From, wrong = p.state(ctx, *from); wrong != nil && !errors.Is(wrong, ErrDigest) {
		return wrong
	}
	if err := p.between(ctx, b, *from, *to); err != nil {
		return err
	}
	return wrong
}

// between continues from the last computed state, and counts.
func (p *past) between(ctx context.Context, b *StatesBetween, from, to AsOf) error {
	if first := b.From.Past.First; first > from.To+1 && to.To > from.To {
		b.Uncounted = fmt.Sprintf("the log begins with message %d", first)
		return nil
	}
	passed := p.direct.CountStreams() // the shard computes nothing after this
	done := b.From.Past
	done.Last = to.To
	if err := p.advance(ctx, to, &done, from.To); err != nil {
		return err
	}
	b.Streams = slices.SortedFunc(maps.Values(passed), func(a, b *Passed) int {
		return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(a.Stream, b.Stream))
	})
	return nil
}
