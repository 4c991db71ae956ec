package pipeline

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// connectionBudget is how many bytes the server may have under way on one
	// connection; at 64 MiB it drops the client as a slow consumer.
	connectionBudget = 48 << 20
	// maxPull is where larger pulls gain nothing.
	maxPull = 16 << 20
	// subjectRoom is what a message weighs besides headers and payload.
	subjectRoom = 8 << 10

	heartbeat     = time.Second
	forgetAfter   = 30 * time.Second // the server's copy of a consumer that went away
	closeDeadline = 5 * time.Second
)

// pullBytes is how much each of n consumers may ask for at once, and how many
// of them one connection can serve. A pull must have room for any message,
// also when half of it is still on the way, or that message would never come.
func pullBytes(n, maxMessage int) (pull, perConnection int) {
	pull = max(2*(maxMessage+subjectRoom), min(maxPull, connectionBudget/n))
	return pull, max(1, connectionBudget/pull)
}

// receive starts the ordered consumer of a partition, from input message
// start on. Its callback blocks while the shard's queue is full, which stops
// the pulls. The caller stops what it returns; ctx must have ended when fail
// returns, for nothing may follow a message that was let go.
func receive(ctx context.Context, js jetstream.JetStream, name string, p *partition, start uint64, pull int, s *shard, fail func(error)) (jetstream.ConsumeContext, error) {
	cons, err := js.OrderedConsumer(ctx, inputStream(name), jetstream.OrderedConsumerConfig{
		FilterSubjects:    []string{inputFilter(name, p.id)},
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       start,
		InactiveThreshold: forgetAfter,
	})
	if err != nil {
		return nil, fmt.Errorf("pipeline: consumer of partition %d: %w", p.id, err)
	}
	pending := int64(0) // of this partition, as added to the counter
	cc, err := cons.Consume(func(m jetstream.Msg) {
		if ctx.Err() != nil {
			return // the message before may have been let go: none may follow it into the queue
		}
		meta, err := m.Metadata()
		if err != nil {
			fail(fmt.Errorf("pipeline: message on %s: %w", m.Subject(), err))
			return
		}
		now := int64(meta.NumPending)
		s.counters.pending.Add(now - pending)
		pending = now
		subject := m.Subject()
		j := job{
			part: p, seq: meta.Sequence.Stream, stored: meta.Timestamp.UnixNano(), subject: subject, key: subject[strings.LastIndexByte(subject, '.')+1:],
			header: m.Headers(), data: m.Data(),
		}
		select {
		case s.queue <- j:
			s.counters.waiting.Add(1)
		case <-ctx.Done():
		}
	}, jetstream.PullMaxBytes(pull), jetstream.PullHeartbeat(heartbeat),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
			if ctx.Err() == nil {
				s.counters.resets.Add(1)
				s.log.Debug("consumer recovers", "partition", p.id, "err", err)
			}
		}))
	if err != nil {
		return nil, fmt.Errorf("pipeline: consumer of partition %d: %w", p.id, err)
	}
	return cc, nil
}

// stopConsumers ends them all and waits for their callbacks.
func stopConsumers(all []jetstream.ConsumeContext) {
	for _, cc := range all {
		cc.Stop()
	}
	late := time.After(closeDeadline)
	for _, cc := range all {
		select {
		case <-cc.Closed():
		case <-late: // the connection's end, which follows, ends them
			return
		}
	}
}
