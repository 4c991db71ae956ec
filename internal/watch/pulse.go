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
	// noAnswer is how long the process that keeps the alarms may say nothing, where the
	// server knows that it listens. One that was killed does not listen: the server says
	// so at once.
	noAnswer = 5 * time.Second
	// comeBack is how long a process needs to listen again, once its client tries to.
	comeBack = 200 * time.Millisecond
	// answerWait is how long one question waits. It was on its way to a process that was
	// killed just then, perhaps, and only the next one finds that nobody listens.
	answerWait = 300 * time.Millisecond
	pulseBytes = 4 << 10
)

// pulse is what the process that keeps the alarms answers to whoever asks whether it is
// there, on <job>.alarms.alive, as JSON. Events up to message Last of the log are all that
// follow from the output up to message Position, and every later event has that position
// or a later one.
type pulse struct {
	Writer   string `json:"writer"`
	Position uint64 `json:"position"`
	Last     uint64 `json:"last"`
	// Written says that the bucket has what was known of the streams at this position, and
	// after the event of this number.
	Written stage `json:"written"`
}

// stage is how far a Fold is: position and number of the last event.
type stage struct {
	Position uint64 `json:"position"`
	Number   uint64 `json:"number"`
}

// parsePulse reads one.
func parsePulse(data []byte) (p pulse, err error) {
	if len(data) > pulseBytes {
		return p, fmt.Errorf("an answer of %d bytes, want at most %d", len(data), pulseBytes)
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return pulse{}, fmt.Errorf("the answer is not read: %w", err)
	}
	if p.Writer == "" {
		return pulse{}, errors.New("the answer names no writer")
	}
	return p, nil
}

// errNobody is the error where no process keeps the alarms.
var errNobody = errors.New("no process keeps the alarms")

// errLost is the error where the connection broke before the process kept the alarms: it
// begins again on the next one.
var errLost = errors.New("watch: the connection to the server was lost")

// asker asks on one connection whether a process keeps the alarms.
type asker struct {
	nc         *nats.Conn
	job        string
	reconnects uint64    // of the connection: it is another one where that changes
	back       time.Time // from then on, a process listens that had to come back to the server
	listens    time.Time // likewise, or the zero time: none has to come back
	heard      time.Time // the last answer came, or the first question was asked
}

// newAsker begins on the connection that there is now. That the server knows of nobody who
// listens means nothing yet: it may have begun itself just now, and the process that keeps the
// alarms comes back within the client's wait between two attempts.
func newAsker(nc *nats.Conn, job string) *asker {
	wait := nc.Opts.ReconnectWait + nc.Opts.ReconnectJitter + comeBack
	if _, err := nc.TLSConnectionState(); err == nil {
		wait += nc.Opts.ReconnectJitterTLS - nc.Opts.ReconnectJitter
	}
	now := time.Now()
	return &asker{nc: nc, job: job, reconnects: nc.Stats().Reconnects, back: now.Add(wait), listens: now.Add(wait), heard: now}
}

// believes takes the newest record of the log, the name as which this process became its
// writer (empty: it never did), and whether it has been connected before. Nobody is on its way
// back whom to wait for
//   - where this process is still the log's writer, which it has become before its connection
//     broke,
//   - or where it starts, and the writer was connected to this server, which has not begun
//     since. It may be that the writer's connection alone broke just now: then it is fenced, and
//     stands by. A process that has lost its own connection does not assume that.
func (a *asker) believes(r record, claimed string, began bool) {
	a.listens = a.back
	if claimed != "" && r.Writer == claimed || !began && r.Server != "" && r.Server == a.nc.ConnectedServerId() {
		a.listens = time.Time{}
	}
}

// ask asks once. The error is errNobody where no process keeps the alarms, and another one
// where that is not known.
func (a *asker) ask(ctx context.Context) (p pulse, err error) {
	try, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	m, err := a.nc.RequestWithContext(try, wire.AlarmAliveSubject(a.job), nil)
	if err == nil {
		if p, err = parsePulse(m.Data); err == nil {
			a.heard = time.Now()
			return p, nil
		}
	}
	same := a.nc.IsConnected() && a.nc.Stats().Reconnects == a.reconnects
	nobody := errors.Is(err, nats.ErrNoResponders) && time.Now().After(a.listens) || time.Since(a.heard) >= noAnswer
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

// forever asks again and again, and hands the answers on, until ctx ends.
func (a asker) forever(ctx context.Context, to chan<- answered) {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		var one answered
		one.pulse, one.err = a.ask(ctx)
		one.asker = a
		select {
		case to <- one:
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

// answered is an answer, or why there is none.
type answered struct {
	pulse pulse
	err   error
	asker asker // as it is then
}
