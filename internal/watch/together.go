package watch

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
)

const (
	// mostTogether is the maximum number of events in a batch.
	mostTogether = 256
	// batchesDisabled is the server's error if a NATS stream does not allow batches.
	batchesDisabled jetstream.ErrorCode = 10205
)

// inbox receives the server's replies to published messages on one subscription.
type inbox struct {
	sub     *nats.Subscription
	prefix  string
	answers chan *nats.Msg
}

func newInbox(nc *nats.Conn, size int) (*inbox, error) {
	i := &inbox{prefix: nc.NewInbox() + ".", answers: make(chan *nats.Msg, size)}
	var err error
	i.sub, err = nc.ChanSubscribe(i.prefix+">", i.answers)
	return i, err
}

func (i *inbox) close() { _ = i.sub.Unsubscribe() }

// publishReply is the server's reply to a message or a batch.
type publishReply struct {
	Stream   string              `json:"stream"`
	Sequence uint64              `json:"seq"`   // of the last message in the NATS stream
	Count    uint64              `json:"count"` // of messages in the batch
	Error    *jetstream.APIError `json:"error"`
}

// publishEvents publishes events after the last message of the log, and returns when all are
// stored.
//
// Several events form a batch if the log allows batches (fast batches of JetStream, gap mode fail):
// the server stores them in order, ends at the first refused event, and reports the number of
// stored events. A message of another process among them ends the batch: each message names the
// number of the previous message, as in the whole log. Without a good reply the events are
// republished one by one, and publishMessage finds the stored events.
func (b *book) publishEvents(ctx context.Context, all []alarm.Logged) error {
	for len(all) > 1 && b.inbox != nil {
		n := min(len(all), mostTogether)
		if done, err := b.publishBatch(ctx, all[:n]); err != nil {
			return err
		} else if !done {
			break
		}
		all = all[n:]
	}
	for i := range all {
		if err := b.publishEvent(ctx, &all[i]); err != nil {
			return err
		}
	}
	return nil
}

// sendBatch publishes the messages of a batch. If sent is false and the error is nil, the
// connection refused a message.
func (b *book) sendBatch(all []alarm.Logged) (sent bool, err error) {
	for i := range all {
		m, err := b.batchMessage(all, i)
		if err != nil {
			return false, err
		}
		if b.js.Conn().PublishMsg(m) != nil {
			return false, nil
		}
	}
	return true, nil
}

// publishBatch publishes events as a batch. If done is false, a prefix of the events, or all, may
// be stored.
func (b *book) publishBatch(ctx context.Context, all []alarm.Logged) (done bool, err error) {
	try, cancel := b.link.Attempt(ctx)
	defer cancel()
	b.batches++
	for len(b.inbox.answers) > 0 { // late replies to earlier batches
		<-b.inbox.answers
	}
	if sent, err := b.sendBatch(all); !sent {
		return false, err
	}
	for {
		select {
		case <-try.Done():
			return false, nil
		case m := <-b.inbox.answers:
			if !strings.HasPrefix(m.Subject, b.inbox.prefix+b.batchID()+".") {
				continue
			}
			if len(m.Data) == 0 { // no server stores messages at present
				return false, nil
			}
			var reply publishReply
			if json.Unmarshal(m.Data, &reply) != nil || reply.Stream == "" {
				continue // flow control, or why the batch will end
			}
			if reply.Error != nil && reply.Error.ErrorCode == batchesDisabled {
				b.log.Info("the alarm log no longer accepts batches of events: publishing events one by one, which is slower", "stream", reply.Stream)
				b.inbox.close()
				b.inbox = nil
			}
			n := uint64(len(all))
			if reply.Error != nil || reply.Count != n || reply.Sequence != b.last+n {
				return false, nil
			}
			b.last += n
			return true, nil
		}
	}
}

// batchID returns the name of the current batch.
func (b *book) batchID() string { return b.writer + strconv.Itoa(b.batches) }

// batchMessage returns the message of event i of a batch. The reply subject describes the message:
// batch, messages per reply, gap mode, number in the batch, and whether the message is the first
// (0), a middle (1) or the last (2).
func (b *book) batchMessage(all []alarm.Logged, i int) (*nats.Msg, error) {
	m, err := b.eventMessage(&all[i])
	if err != nil {
		return nil, err
	}
	kind := "1"
	switch i {
	case 0:
		kind = "0"
	case len(all) - 1:
		kind = "2"
	}
	m.Reply = b.inbox.prefix + b.batchID() + ".65535.fail." + strconv.Itoa(i+1) + "." + kind + ".$FI"
	m.Header.Set(jetstream.ExpectedLastSeqHeader, strconv.FormatUint(b.last+uint64(i), 10))
	return m, nil
}
