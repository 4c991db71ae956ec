package watch

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/pipeline/alarm"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
)

const (
	latestEvery  = 500 * time.Millisecond
	latestAtOnce = 5000 // streams
	latestWait   = 5 * time.Second
)

// latest writes what is known of each stream. It belongs to one goroutine.
type latest struct {
	js    jetstream.JetStream // of its own: what waits for an answer holds up nothing else
	job   string
	sent  map[string]jetstream.PubAckFuture // streams whose answer is not here
	since time.Time                         // when they were sent
	told  time.Time
	log   *slog.Logger
}

func newLatest(nc *nats.Conn, job string, log *slog.Logger) (*latest, error) {
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncTimeout(latestWait), jetstream.WithPublishAsyncMaxPending(2*latestAtOnce))
	return &latest{js: js, job: job, sent: map[string]jetstream.PubAckFuture{}, log: log}, err
}

// settle looks at the answers. What was not stored is written again.
func (l *latest) settle(f *alarm.Fold) (all bool) {
	var failed error
	for name, future := range l.sent {
		select {
		case <-future.Ok():
		case err := <-future.Err():
			failed = err
			f.Again(name)
		default:
			if time.Since(l.since) < 2*latestWait {
				continue
			}
			f.Again(name)
		}
		delete(l.sent, name)
	}
	if failed != nil && time.Since(l.told) > toldEvery {
		l.told = time.Now()
		l.log.Warn("the server does not store what is known of the streams: trying again", "bucket", wire.LatestBucket(l.job), "err", failed)
	}
	return len(l.sent) == 0
}

// flush writes what has changed, if what was written before has been stored.
func (l *latest) flush(f *alarm.Fold) {
	if !l.settle(f) || !l.js.Conn().IsConnected() {
		return
	}
	changed, gone := f.Changed(latestAtOnce)
	l.since = time.Now()
	for i := range changed {
		data, err := json.Marshal(&changed[i])
		if err != nil {
			l.log.Warn("what is known of a stream cannot be written", "stream", changed[i].Stream, "err", err)
			continue
		}
		l.publish(f, changed[i].Stream, data, nil)
	}
	for _, name := range gone {
		l.publish(f, name, nil, nats.Header{jetstream.MsgRollup: {jetstream.MsgRollupSubject}, "KV-Operation": {"PURGE"}})
	}
}

func (l *latest) publish(f *alarm.Fold, name string, data []byte, h nats.Header) {
	m := &nats.Msg{Subject: "$KV." + wire.LatestBucket(l.job) + "." + alarm.Token(name), Data: data, Header: h}
	future, err := l.js.PublishMsgAsync(m, jetstream.WithRetryAttempts(0))
	if err != nil {
		f.Again(name)
		return
	}
	l.sent[name] = future
}

// unsure marks what may not be stored as changed, before the state is written.
func (l *latest) unsure(f *alarm.Fold) {
	for name := range l.sent {
		f.Again(name)
	}
}

// finish writes all that has changed, for a while.
func (l *latest) finish(ctx context.Context, f *alarm.Fold) {
	tick := time.NewTicker(latestEvery / 50)
	defer tick.Stop()
	for {
		l.flush(f)
		if len(l.sent) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
