package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

const (
	// A round waits latestEach for each stream of the previous round, at least latestSoon and at
	// most latestEvery: short for few streams, at most 10,000 streams per second for many.
	latestEach   = 200 * time.Microsecond
	latestSoon   = 100 * time.Millisecond
	latestEvery  = 500 * time.Millisecond
	latestAtOnce = 5000 // streams
	latestWait   = 5 * time.Second
	// latestMark is a key that never exists: in a stream's token, = never precedes a w.
	latestMark = "=writer"
)

// latest writes the latest data of each stream to the bucket. One goroutine owns it.
//
// Each message names the number of the bucket's previous message. The server therefore refuses the
// messages of a process that was stopped for a long time and resumes: its successor has written
// since. If the number is unknown, claimBucket determines it. All replies arrive on one
// subscription, which costs a quarter of one future per message.
type latest struct {
	nc            *nats.Conn
	js            jetstream.JetStream
	job           string
	writer        string
	link          *store.Link
	confirmWriter func(context.Context) error // returns an error unless this process certainly writes the log
	last          uint64                      // last message of the bucket
	claimed       bool                        // last is known, and this process still wrote the log after the mark was stored
	inbox         *inbox                      // replies, to replyPrefix + index
	round         uint64                      // number of the current round of messages
	sent          map[int]string              // streams of this round without a reply, by index
	failed        failure                     // first message of this round that was not stored
	reconnects    uint64                      // connection of this round: number of earlier reconnects
	since         time.Time                   // start of this round
	pause         time.Duration               // until the next round
	warned        time.Time
	log           *slog.Logger

	written progress // progress that the bucket certainly has
	sending progress // progress that the bucket has after all replies of this round; zero = the round is incomplete
}

func newLatest(nc *nats.Conn, b *book) (*latest, error) {
	answers, err := newInbox(nc, 2*latestAtOnce) // includes late replies of the previous round
	return &latest{nc: nc, js: b.js, job: b.job, writer: b.writer, link: b.link, confirmWriter: b.confirmWriter, inbox: answers, sent: map[int]string{}, log: b.log}, err
}

// close releases the inbox; latest writes no more.
func (l *latest) close() { l.inbox.close() }

// replyPrefix returns the reply subject of this round; an index follows.
func (l *latest) replyPrefix() string { return l.inbox.prefix + strconv.FormatUint(l.round, 10) + "." }

// failure describes the first message of a round that was not stored. Later messages name numbers
// that never came.
type failure struct {
	index int
	err   error // nil: no failure
}

// recordReply records whether a stream is stored. A stream that is not stored is rewritten.
func (l *latest) recordReply(f *alarm.Fold, m *nats.Msg) {
	index, err := l.parseReply(m)
	name, waits := l.sent[index]
	if !waits {
		return
	}
	if delete(l.sent, index); err == nil {
		return
	}
	l.claimed, l.sending = false, progress{}
	f.MarkChanged(name)
	if l.failed.err == nil || index < l.failed.index {
		l.failed = failure{index, err}
	}
}

// collectReplies reads the replies and marks streams that were not stored as changed. all is true
// if this round has no open replies.
func (l *latest) collectReplies(f *alarm.Fold) (all bool) {
	for more := len(l.sent) > 0; more; {
		select {
		case m := <-l.inbox.answers:
			l.recordReply(f, m)
		default:
			more = false
		}
	}
	if len(l.sent) > 0 && (l.nc.Stats().Reconnects != l.reconnects || time.Since(l.since) > latestWait) { // replies can no longer arrive
		if l.nc.Stats().Reconnects == l.reconnects {
			l.warnNotStored(errUnknown)
		}
		l.markUnconfirmed(f)
		clear(l.sent)
		l.claimed, l.sending, l.failed = false, progress{}, failure{}
	}
	if len(l.sent) > 0 {
		return false
	}
	if why := l.failed.err; why != nil {
		if l.failed = (failure{}); store.OvertakenBy(why) { // another writer stored a message, possibly over ours
			f.MarkAllChanged()
		} else {
			l.warnNotStored(why)
		}
	}
	if !f.HasChanges() {
		l.sending = progressOf(f)
	}
	if l.sending != (progress{}) {
		l.written, l.sending = l.sending, progress{}
	}
	return true
}

// parseReply returns the index of the message in this round (-1: another round), and whether the
// server stored the message.
func (l *latest) parseReply(m *nats.Msg) (index int, err error) {
	to, ok := strings.CutPrefix(m.Subject, l.replyPrefix())
	if index, err = strconv.Atoi(to); !ok || err != nil {
		return -1, nil
	}
	var reply publishReply
	switch err := json.Unmarshal(m.Data, &reply); {
	case len(m.Data) == 0:
		return index, nats.ErrNoResponders
	case err != nil:
		return index, err
	case reply.Error != nil:
		return index, reply.Error
	case reply.Sequence == 0:
		return index, errUnknown
	}
	return index, nil
}

// progressOf returns the progress of a Fold.
func progressOf(f *alarm.Fold) progress { return progress{f.Position(), f.Number()} }

func (l *latest) warnNotStored(err error) {
	if time.Since(l.warned) > warnEvery {
		l.warned = time.Now()
		l.log.Warn("the server does not store the latest data of the streams: retrying", "bucket", wire.LatestBucket(l.job), "err", err)
	}
}

// claimBucket stores a mark in the bucket and then checks that this process still writes the log.
// Messages of an earlier process name a number before the mark, so the server refuses them. If the
// log was taken over before the mark, the error is ErrFenced; if later, the successor marks the
// bucket after our mark.
func (l *latest) claimBucket(ctx context.Context) error {
	try, cancel := l.link.Attempt(ctx)
	defer cancel()
	mark := &nats.Msg{Subject: "$KV." + wire.LatestBucket(l.job) + "." + latestMark, Header: nats.Header{"KV-Operation": {"DEL"}, wire.HeaderWorker: {l.writer}}}
	ack, err := l.js.PublishMsg(try, mark, jetstream.WithRetryAttempts(0))
	if err == nil {
		err = l.confirmWriter(ctx)
	}
	if err == nil {
		l.last, l.claimed = ack.Sequence, true
	}
	return err
}

// writeChanged starts a round with the changed streams if the previous round is complete. An error
// means that this process may write no more.
func (l *latest) writeChanged(ctx context.Context, f *alarm.Fold) error {
	if !l.collectReplies(f) || !l.nc.IsConnected() || !f.HasChanges() || time.Since(l.since) < l.pause {
		return nil
	}
	if !l.claimed {
		if err := l.claimBucket(ctx); errors.Is(err, ErrFenced) {
			return err
		} else if err != nil {
			l.warnNotStored(err)
			return nil
		}
	}
	changed, gone := f.TakeChanges(latestAtOnce)
	l.since = time.Now()
	l.pause = min(max(time.Duration(len(changed)+len(gone))*latestEach, latestSoon), latestEvery)
	l.round++
	l.reconnects = l.nc.Stats().Reconnects
	for i := range changed {
		data, err := json.Marshal(&changed[i])
		if err != nil {
			l.log.Warn("cannot encode the latest data of a stream", "stream", changed[i].Stream, "err", err)
			continue
		}
		l.publishStream(f, i, changed[i].Stream, data, nats.Header{})
	}
	for i, name := range gone {
		l.publishStream(f, len(changed)+i, name, nil, nats.Header{jetstream.MsgRollup: {jetstream.MsgRollupSubject}, "KV-Operation": {"PURGE"}})
	}
	if l.sending = (progress{}); !f.HasChanges() {
		l.sending = progressOf(f)
	}
	return nil
}

func (l *latest) publishStream(f *alarm.Fold, index int, name string, data []byte, h nats.Header) {
	h[jetstream.ExpectedLastSeqHeader] = []string{strconv.FormatUint(l.last, 10)}
	m := &nats.Msg{Subject: "$KV." + wire.LatestBucket(l.job) + "." + alarm.Token(name), Reply: l.replyPrefix() + strconv.Itoa(index), Data: data, Header: h}
	if err := l.nc.PublishMsg(m); err != nil {
		f.MarkChanged(name)
		return
	}
	l.last++
	l.sent[index] = name
}

// markUnconfirmed marks the streams without a reply as changed, before the state is saved.
func (l *latest) markUnconfirmed(f *alarm.Fold) {
	for _, name := range l.sent {
		f.MarkChanged(name)
	}
}

// writeAll writes all changed streams until ctx ends.
func (l *latest) writeAll(ctx context.Context, f *alarm.Fold) error {
	tick := time.NewTicker(latestSoon / 10)
	defer tick.Stop()
	for {
		l.pause = 0
		if err := l.writeChanged(ctx, f); err != nil {
			return fmt.Errorf("%w; the process that took over writes the latest data of the streams", err)
		}
		if len(l.sent) == 0 && (!f.HasChanges() || !l.claimed || !l.nc.IsConnected()) {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
