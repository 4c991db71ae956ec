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
	// mostTogether is how many events are published together.
	mostTogether = 256
	// batchesDisabled is the server's error where a NATS stream does not take batches.
	batchesDisabled jetstream.ErrorCode = 10205
)

// inbox is where the server answers what a process publishes, all of it in one subscription.
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

// stored is what the server says to a message, or to those that were published together.
type stored struct {
	Stream   string              `json:"stream"`
	Sequence uint64              `json:"seq"`   // of the last one in the NATS stream
	Count    uint64              `json:"count"` // of those that were published together
	Error    *jetstream.APIError `json:"error"`
}

// events publishes events behind the last message of the log, and returns when all are
// stored.
//
// Several go together where the log allows it (fast batches of JetStream, gap mode fail):
// the server stores them in their order, ends at the first that it refuses, and says then how
// many it has. So what another process has stored amid them ends them: each message names the
// number of the one before it, as every message of the log does. Without a good answer they
// are published again one by one, and put finds those that are there.
func (b *book) events(ctx context.Context, all []alarm.Logged) error {
	for len(all) > 1 && b.inbox != nil {
		n := min(len(all), mostTogether)
		if done, err := b.batch(ctx, all[:n]); err != nil {
			return err
		} else if !done {
			break
		}
		all = all[n:]
	}
	for i := range all {
		if err := b.event(ctx, &all[i]); err != nil {
			return err
		}
	}
	return nil
}

// send publishes the messages of a batch; not sent without an error means that the connection
// did not take one.
func (b *book) send(all []alarm.Logged) (sent bool, err error) {
	for i := range all {
		m, err := b.part(all, i)
		if err != nil {
			return false, err
		}
		if b.js.Conn().PublishMsg(m) != nil {
			return false, nil
		}
	}
	return true, nil
}

// batch publishes events together. If not done, some of them may be stored: the first ones,
// or all.
func (b *book) batch(ctx context.Context, all []alarm.Logged) (done bool, err error) {
	try, cancel := b.link.Attempt(ctx)
	defer cancel()
	b.batches++
	for len(b.inbox.answers) > 0 { // what came late of those before
		<-b.inbox.answers
	}
	if sent, err := b.send(all); !sent {
		return false, err
	}
	for {
		select {
		case <-try.Done():
			return false, nil
		case m := <-b.inbox.answers:
			if !strings.HasPrefix(m.Subject, b.inbox.prefix+b.id()+".") {
				continue
			}
			if len(m.Data) == 0 { // nobody stores anything now
				return false, nil
			}
			var said stored
			if json.Unmarshal(m.Data, &said) != nil || said.Stream == "" {
				continue // how fast the server is, or why the batch will end
			}
			if said.Error != nil && said.Error.ErrorCode == batchesDisabled {
				b.log.Info("the alarm log does not take several events together any more: they are published one by one, which is slower", "stream", said.Stream)
				b.inbox.close()
				b.inbox = nil
			}
			n := uint64(len(all))
			if said.Error != nil || said.Count != n || said.Sequence != b.last+n {
				return false, nil
			}
			b.last += n
			return true, nil
		}
	}
}

// id is that of a batch.
func (b *book) id() string { return b.writer + strconv.Itoa(b.batches) }

// part is the message of one of the events that are published together. Its reply says what
// it is: the batch, how many messages an answer is wanted for, what ends the batch, its number
// in there, and whether it is the first (0), another one (1) or the last (2).
func (b *book) part(all []alarm.Logged, i int) (*nats.Msg, error) {
	m, err := b.message(&all[i])
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
	m.Reply = b.inbox.prefix + b.id() + ".65535.fail." + strconv.Itoa(i+1) + "." + kind + ".$FI"
	m.Header.Set(jetstream.ExpectedLastSeqHeader, strconv.FormatUint(b.last+uint64(i), 10))
	return m, nil
}
