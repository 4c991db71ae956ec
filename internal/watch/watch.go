package watch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

const (
	saveEvery = 30 * time.Second
	// catchUp is the longest time a starting process writes no latest data while it rejudges
	// messages: the previous process has written newer data.
	catchUp = 10 * time.Second
)

// Options configure the alarms of a job.
type Options struct {
	Job string
	// Rules are the rules of the configuration. They apply if they differ from the configuration's
	// rules at the last start; otherwise the rules set since then (SetRules) stay. Nil: the current
	// rules stay.
	Rules alarm.Rules
	// Since is the start of a new alarm log: the zero time is now. An existing alarm log continues.
	Since time.Time
	// Missing continues even if unjudged predictions were removed.
	Missing bool
	// Save is the interval of state saves; 0 = 30 s.
	Save     time.Duration
	Replicas int    // of new NATS streams; 0 = as the job's output
	Who      string // origin of the rules: who starts the process
	// TakeOver takes the alarms over at once from the process that keeps them, which ends with
	// ErrFenced. Otherwise this process stands by: it follows that process, and takes the alarms
	// over when that process no longer answers.
	TakeOver bool
	StandsBy func()             // called when this process follows another process and has its whole state; may be nil
	Writes   func()             // called when this process starts to keep the alarms; may be nil
	Begun    func(alarm.Rules)  // called when this process has caught up with the log; may be nil
	Event    func(*alarm.Event) // called for each published event; may be nil
	Log      *slog.Logger
}

// processState is the part of a process's state that survives connections.
type processState struct {
	nc              *nats.Conn
	js              jetstream.JetStream
	link            *store.Link
	connectedBefore bool   // connected before
	lastWriter      string // the writer name of its last claim; empty = none
}

// watcher is a running process on one connection.
type watcher struct {
	Options
	process       *processState
	book          *book
	latest        *latest
	fold          *alarm.Fold
	output        jetstream.Stream
	outputCreated time.Time      // creation time of the output
	tail          []alarm.Logged // events of the log that are not yet compared
	lost          *lostOutput    // the output's lost part; nil = none, or handled
	standby       standby
	pulse         atomic.Pointer[pulse]

	reading   *outputReader // of the output; nil = not opened
	requests  chan *nats.Msg
	observed  outputMark
	listening time.Time // server time; zero = not listening
	target    target
	saved     saved
	started   bool
	warned    map[string]bool // warnings that were logged
}

// lostOutput is the part of the output that was lost.
type lostOutput struct {
	last   uint64         // last surviving message
	events []alarm.Logged // events of lost messages
}

// target is the output's end at the start of the process.
type target struct {
	last  uint64
	since time.Time // start of the process

	written bool // the latest data was written
}

// saved describes the last save.
type saved struct {
	when     time.Time // of the last save, or of the last check without changes
	progress [2]uint64 // position and number
	took     time.Duration
}

// outputMark is a server report: the output's last message at a time.
type outputMark struct {
	last uint64
	time time.Time
}

// Run keeps the alarms of a job until ctx ends (nil) or an error prevents it.
func Run(ctx context.Context, nc *nats.Conn, o Options) error {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	reportStandbyOnce(&o)
	process := &processState{nc: nc, js: js, link: store.Follow(nc)}
	for {
		err := runConnected(ctx, process, o)
		process.connectedBefore = true
		switch {
		case errors.Is(err, errLost) && !nc.IsClosed():
			o.Log.Debug("restarting on the next connection", "err", err)
			err = awaitConnection(ctx, nc)
		case errors.Is(err, errBack):
			o.Log.Warn("restarting with the server's data; all events of the log stay valid", "err", err)
			err = store.Pause(ctx, checkEvery)
		default:
			return err
		}
		if err != nil { // ctx ended
			return nil
		}
	}
}

// close releases the book and the latest writer.
func (w *watcher) close() {
	if w.book != nil {
		w.book.close()
	}
	if w.latest != nil {
		w.latest.close()
	}
}

// reportStandbyOnce limits StandsBy to one call until this process keeps the alarms.
func reportStandbyOnce(o *Options) {
	said, standsBy, writes := false, o.StandsBy, o.Writes
	o.StandsBy = func() {
		if !said && standsBy != nil {
			standsBy()
		}
		said = true
	}
	o.Writes = func() {
		if said = false; writes != nil {
			writes()
		}
	}
}

// startConnected calls becomeWriter on the present connection. The error is errLost if the
// connection broke in the meantime, and nil if ctx ended.
func (w *watcher) startConnected(ctx context.Context) (quiet func(), err error) {
	reconnects := w.process.nc.Stats().Reconnects
	up, done := w.process.link.Connection(ctx)
	defer done()
	quiet, err = w.becomeWriter(up)
	if err == nil {
		return quiet, nil
	}
	if ctx.Err() != nil {
		return func() {}, nil
	}
	if up.Err() != nil || !w.process.nc.IsConnected() || w.process.nc.Stats().Reconnects != reconnects {
		err = fmt.Errorf("%w: %w", errLost, err)
	}
	return nil, err
}

// openOutput starts the output reader unless it already runs.
func (w *watcher) openOutput(ctx context.Context) {
	if w.reading != nil {
		return
	}
	from := w.fold.Position() + 1
	if w.lost != nil {
		from = min(from, w.lost.last+1)
	}
	w.reading = readOutput(ctx, w.process.js, w.process.link, w.Job, from, w.Log)
}

func runConnected(ctx context.Context, process *processState, o Options) error {
	w := &watcher{
		Options: o, process: process, requests: make(chan *nats.Msg, queueSize), warned: map[string]bool{},
	}
	defer w.discardState()
	defer w.close()
	quiet, err := w.startConnected(ctx)
	if err == nil {
		defer quiet()
	}
	if err != nil || ctx.Err() != nil {
		return err
	}
	for _, subject := range []string{wire.AlarmAckSubject(o.Job), wire.AlarmSetSubject(o.Job)} {
		sub, err := w.process.nc.ChanSubscribe(subject, w.requests)
		if err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		defer func() { _ = sub.Unsubscribe() }()
	}
	w.openOutput(ctx)
	err = w.runLoop(ctx)
	w.reading.stop()
	if err != nil && ctx.Err() != nil { // in the middle of a message's events: the state has all, the log not yet
		return nil
	}
	if w.standby.tookOver && !w.started && (errors.Is(err, ErrDiffers) || errors.Is(err, alarm.ErrMissing)) {
		return fmt.Errorf("%w: the followed state does not match the server: %w", errBack, err)
	}
	if err != nil {
		return err
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := w.latest.writeAll(end, w.fold); err != nil {
		return err
	}
	return w.saveState(end)
}

// judgeExisting judges the existing messages before the loop starts.
func (w *watcher) judgeExisting(ctx context.Context) error {
	if err := w.applyFacts(ctx, w.fold.Position()); err != nil {
		return err
	}
	if err := w.checkServer(ctx); err != nil {
		return err
	}
	if held := w.standby.held; held != nil {
		return w.judgeOutput(ctx, held)
	}
	return nil
}

// runLoop judges new messages and answers requests.
func (w *watcher) runLoop(ctx context.Context) error {
	flush, look := time.NewTicker(latestSoon/2), time.NewTicker(checkEvery)
	defer flush.Stop()
	defer look.Stop()
	if err := w.judgeExisting(ctx); err != nil {
		return err
	}
	for {
		if !w.target.written { // immediately after catching up
			if err := w.writeLatest(ctx); err != nil {
				return err
			}
		}
		w.pulse.Store(&pulse{Writer: w.book.writer, Position: w.fold.Position(), Last: w.book.last, Written: w.latest.written})
		requests := w.requests
		if !w.started { // requests follow the tail
			requests = nil
		}
		var err error
		select {
		case <-ctx.Done():
			return nil
		case err = <-w.reading.failed:
		case o := <-w.reading.outputs:
			err = w.judgeOutput(ctx, &o)
		case m := <-requests:
			err = w.answerRequest(ctx, m)
		case <-flush.C:
			err = w.writeLatest(ctx)
		case <-look.C:
			if err = w.checkServer(ctx); err == nil {
				err = w.saveIfDue(ctx)
			}
		}
		if err != nil {
			return err
		}
	}
}

// writeLatest writes the latest data once it is at least as new as the previous process's data.
func (w *watcher) writeLatest(ctx context.Context) error {
	if w.fold.Position() < w.target.last && time.Since(w.target.since) < catchUp {
		return nil
	}
	w.target.written = true
	return w.latest.writeChanged(ctx, w.fold)
}
