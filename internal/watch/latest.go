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
	// What is known is written after so long for each stream that was written before, within
	// these bounds: few streams at once, many at most 10,000 in a second.
	latestEach   = 200 * time.Microsecond
	latestSoon   = 100 * time.Millisecond
	latestEvery  = 500 * time.Millisecond
	latestAtOnce = 5000 // streams
	latestWait   = 5 * time.Second
	// latestMark is a key that is never there: no stream's token has = before a w.
	latestMark = "=writer"
)

// latest writes what is known of each stream. It belongs to one goroutine.
//
// Each message names the number of the message before it in the bucket, so the server
// refuses those of a process that was stopped for long and goes on: the next process has
// written since. Where that number is not known, claim finds it out. Each message is
// answered: all answers come to one subscription, which costs a quarter of a future for each.
type latest struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	job    string
	writer string
	link   *store.Link
	sure   func(context.Context) error // an error where it is not certain that the log is ours
	last   uint64                      // message of the bucket
	ours   bool                        // last is known, and the log was ours after it was stored
	inbox  *inbox                      // of answers, to round.index
	round  uint64                      // how often streams were written together
	sent   map[int]string              // streams of this round whose answer is not here, by their index
	failed failure                     // the first message of this round that is known not to be stored
	up     uint64                      // the connection that they were sent on: how many there were before
	since  time.Time                   // when they were sent
	pause  time.Duration               // until the next ones may be
	told   time.Time
	log    *slog.Logger

	written stage // what was known then is stored
	sending stage // likewise, once all answers are here; zero = not all of that was sent
}

func newLatest(nc *nats.Conn, b *book) (*latest, error) {
	answers, err := newInbox(nc, 2*latestAtOnce) // also those that come late, of the round before
	return &latest{nc: nc, js: b.js, job: b.job, writer: b.writer, link: b.link, sure: b.sure, inbox: answers, sent: map[int]string{}, log: b.log}, err
}

// close ends it: it writes no more.
func (l *latest) close() { l.inbox.close() }

// replies is where the messages of this round are answered: with the index behind it.
func (l *latest) replies() string { return l.inbox.prefix + strconv.FormatUint(l.round, 10) + "." }

// failure is why a message of a round was not stored; those behind it name a number that
// never came.
type failure struct {
	index int
	err   error // nil: none is known
}

// noteAnswer notes whether a stream is stored. One that is not is written again.
func (l *latest) noteAnswer(f *alarm.Fold, m *nats.Msg) {
	index, err := l.answer(m)
	name, waits := l.sent[index]
	if !waits {
		return
	}
	if delete(l.sent, index); err == nil {
		return
	}
	l.ours, l.sending = false, stage{}
	f.Again(name)
	if l.failed.err == nil || index < l.failed.index {
		l.failed = failure{index, err}
	}
}

// settle looks at the answers. What was not stored is written again.
func (l *latest) settle(f *alarm.Fold) (all bool) {
	for more := len(l.sent) > 0; more; {
		select {
		case m := <-l.inbox.answers:
			l.noteAnswer(f, m)
		default:
			more = false
		}
	}
	if len(l.sent) > 0 && (l.nc.Stats().Reconnects != l.up || time.Since(l.since) > latestWait) { // answers do not come any more
		if l.nc.Stats().Reconnects == l.up {
			l.tell(errUnknown)
		}
		l.unsure(f)
		clear(l.sent)
		l.ours, l.sending, l.failed = false, stage{}, failure{}
	}
	if len(l.sent) > 0 {
		return false
	}
	if why := l.failed.err; why != nil {
		if l.failed = (failure{}); store.OvertakenBy(why) { // somebody else has stored something, perhaps over ours
			f.AllAgain()
		} else {
			l.tell(why)
		}
	}
	if !f.HasChanged() {
		l.sending = at(f)
	}
	if l.sending != (stage{}) {
		l.written, l.sending = l.sending, stage{}
	}
	return true
}

// answer reads an answer: to which message of this round (-1: of another one), and whether
// that is stored.
func (l *latest) answer(m *nats.Msg) (index int, err error) {
	to, ok := strings.CutPrefix(m.Subject, l.replies())
	if index, err = strconv.Atoi(to); !ok || err != nil {
		return -1, nil
	}
	var said stored
	switch err := json.Unmarshal(m.Data, &said); {
	case len(m.Data) == 0:
		return index, nats.ErrNoResponders
	case err != nil:
		return index, err
	case said.Error != nil:
		return index, said.Error
	case said.Sequence == 0:
		return index, errUnknown
	}
	return index, nil
}

// at is how far a Fold is.
func at(f *alarm.Fold) stage { return stage{f.Position(), f.Number()} }

func (l *latest) tell(err error) {
	if time.Since(l.told) > toldEvery {
		l.told = time.Now()
		l.log.Warn("the server does not store what is known of the streams: trying again", "bucket", wire.LatestBucket(l.job), "err", err)
	}
}

// claim stores a mark in the bucket, and asks the log whether this process is still its
// writer. What an earlier process sends names a number before the mark: the server
// refuses it. If the log was taken over before the mark, the error is ErrFenced; if it is
// later, the next process marks the bucket behind ours.
func (l *latest) claim(ctx context.Context) error {
	try, cancel := l.link.Attempt(ctx)
	defer cancel()
	mark := &nats.Msg{Subject: "$KV." + wire.LatestBucket(l.job) + "." + latestMark, Header: nats.Header{"KV-Operation": {"DEL"}, wire.HeaderWorker: {l.writer}}}
	ack, err := l.js.PublishMsg(try, mark, jetstream.WithRetryAttempts(0))
	if err == nil {
		err = l.sure(ctx)
	}
	if err == nil {
		l.last, l.ours = ack.Sequence, true
	}
	return err
}

// flush writes what has changed, if what was written before has been stored. Its error is
// that of a process that writes no more.
func (l *latest) flush(ctx context.Context, f *alarm.Fold) error {
	if !l.settle(f) || !l.nc.IsConnected() || !f.HasChanged() || time.Since(l.since) < l.pause {
		return nil
	}
	if !l.ours {
		if err := l.claim(ctx); errors.Is(err, ErrFenced) {
			return err
		} else if err != nil {
			l.tell(err)
			return nil
		}
	}
	changed, gone := f.Changed(latestAtOnce)
	l.since = time.Now()
	l.pause = min(max(time.Duration(len(changed)+len(gone))*latestEach, latestSoon), latestEvery)
	l.round++
	l.up = l.nc.Stats().Reconnects
	for i := range changed {
		data, err := json.Marshal(&changed[i])
		if err != nil {
			l.log.Warn("what is known of a stream cannot be written", "stream", changed[i].Stream, "err", err)
			continue
		}
		l.publish(f, i, changed[i].Stream, data, nats.Header{})
	}
	for i, name := range gone {
		l.publish(f, len(changed)+i, name, nil, nats.Header{jetstream.MsgRollup: {jetstream.MsgRollupSubject}, "KV-Operation": {"PURGE"}})
	}
	if l.sending = (stage{}); !f.HasChanged() {
		l.sending = at(f)
	}
	return nil
}

func (l *latest) publish(f *alarm.Fold, index int, name string, data []byte, h nats.Header) {
	h[jetstream.ExpectedLastSeqHeader] = []string{strconv.FormatUint(l.last, 10)}
	m := &nats.Msg{Subject: "$KV." + wire.LatestBucket(l.job) + "." + alarm.Token(name), Reply: l.replies() + strconv.Itoa(index), Data: data, Header: h}
	if err := l.nc.PublishMsg(m); err != nil {
		f.Again(name)
		return
	}
	l.last++
	l.sent[index] = name
}

// unsure marks what may not be stored as changed, before the state is written.
func (l *latest) unsure(f *alarm.Fold) {
	for _, name := range l.sent {
		f.Again(name)
	}
}

// finish writes all that has changed, for a while.
func (l *latest) finish(ctx context.Context, f *alarm.Fold) error {
	tick := time.NewTicker(latestSoon / 10)
	defer tick.Stop()
	for {
		l.pause = 0
		if err := l.flush(ctx, f); err != nil {
			return fmt.Errorf("%w; what is known of the streams is written by the process that took over", err)
		}
		if len(l.sent) == 0 && (!f.HasChanged() || !l.ours || !l.nc.IsConnected()) {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
