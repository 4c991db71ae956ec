package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

const (
	askEvery = 100 * time.Millisecond
	// silenceLimit is the longest time without an answer while the server reports a listener. A
	// killed process has no listener; the server reports this at once.
	silenceLimit = 5 * time.Second
	// resubscribeTime is the time from a client's reconnect attempt until the process listens.
	resubscribeTime = 200 * time.Millisecond
	// answerWait is the timeout of one question. The server may have delivered the question to a
	// process that was just killed; only the next question then finds no listener.
	answerWait = 300 * time.Millisecond
	pulseBytes = 4 << 10
)

// pulse is the answer of the process that keeps the alarms, as JSON on <job>.alarms.alive. The log
// up to message Last has all events that follow from the output up to Position; every later event
// has this position or a later position.
type pulse struct {
	Writer   string `json:"writer"`
	Position uint64 `json:"position"`
	Last     uint64 `json:"last"`
	// Written is the progress that the bucket certainly has.
	Written progress `json:"written"`
}

// progress is the progress of a Fold: position and number of the last event.
type progress struct {
	Position uint64 `json:"position"`
	Number   uint64 `json:"number"`
}

// parsePulse parses a pulse.
func parsePulse(data []byte) (p pulse, err error) {
	if len(data) > pulseBytes {
		return p, fmt.Errorf("an answer of %d bytes, want at most %d", len(data), pulseBytes)
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return pulse{}, fmt.Errorf("cannot parse the answer: %w", err)
	}
	if p.Writer == "" {
		return pulse{}, errors.New("the answer names no writer")
	}
	return p, nil
}

// errNobody means that no process keeps the alarms.
var errNobody = errors.New("no process keeps the alarms")

// errLost means that the connection broke before the process kept the alarms. The process restarts
// on the next connection.
var errLost = errors.New("watch: the connection to the server was lost")

// asker asks on one connection whether a process keeps the alarms.
type asker struct {
	nc            *nats.Conn
	job           string
	reconnects    uint64    // identifies the connection
	comebackLimit time.Time // until then, the keeper may be reconnecting to the server
	waitUntil     time.Time // like comebackLimit; zero: no keeper is reconnecting
	lastAnswer    time.Time // time of the last answer, or of the first question
}

// newAsker uses the present connection. A report "no listener" is not reliable yet: the server may
// have just started, and the keeper reconnects within its client's wait between two attempts.
func newAsker(nc *nats.Conn, job string) *asker {
	wait := nc.Opts.ReconnectWait + nc.Opts.ReconnectJitter + resubscribeTime
	if _, err := nc.TLSConnectionState(); err == nil {
		wait += nc.Opts.ReconnectJitterTLS - nc.Opts.ReconnectJitter
	}
	now := time.Now()
	return &asker{nc: nc, job: job, reconnects: nc.Stats().Reconnects, comebackLimit: now.Add(wait), waitUntil: now.Add(wait), lastAnswer: now}
}

// considerRecord decides whether a keeper may be reconnecting. r is the newest record, claimed the
// writer name of this process (empty: it never was the writer), began whether this process was
// connected before. The asker does not wait if
//   - this process still is the log's writer, from before its connection broke,
//   - or this process starts, and the writer was connected to this server, which has not
//     restarted since. If only the writer's connection just broke, the writer is fenced and
//     stands by. A process that lost its own connection does not assume this.
func (a *asker) considerRecord(r record, claimed string, began bool) {
	a.waitUntil = a.comebackLimit
	if claimed != "" && r.Writer == claimed || !began && r.Server != "" && r.Server == a.nc.ConnectedServerId() {
		a.waitUntil = time.Time{}
	}
}

// askPulse asks once. The error is errNobody if no process keeps the alarms; other errors leave
// this unknown.
func (a *asker) askPulse(ctx context.Context) (p pulse, err error) {
	try, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	m, err := a.nc.RequestWithContext(try, wire.AlarmAliveSubject(a.job), nil)
	if err == nil {
		if p, err = parsePulse(m.Data); err == nil {
			a.lastAnswer = time.Now()
			return p, nil
		}
	}
	same := a.nc.IsConnected() && a.nc.Stats().Reconnects == a.reconnects
	nobody := errors.Is(err, nats.ErrNoResponders) && time.Now().After(a.waitUntil) || time.Since(a.lastAnswer) >= silenceLimit
	switch {
	case ctx.Err() != nil:
		return p, ctx.Err()
	case !same:
		return p, fmt.Errorf("%w: %w", errLost, err)
	case nobody:
		return p, errNobody
	}
	return p, fmt.Errorf("watch: on %s: %w", wire.AlarmAliveSubject(a.job), err)
}

// askRepeatedly asks and delivers the answers until ctx ends.
func (a asker) askRepeatedly(ctx context.Context, to chan<- pulseAnswer) {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		var answer pulseAnswer
		answer.pulse, answer.err = a.askPulse(ctx)
		answer.asker = a
		select {
		case to <- answer:
		case <-ctx.Done():
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// pulseAnswer is an answer, or the reason for a missing answer.
type pulseAnswer struct {
	pulse pulse
	err   error
	asker asker // state of the asker after the question
}
