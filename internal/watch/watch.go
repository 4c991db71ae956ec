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
	// catchUp is how long a process that begins writes nothing of what is known of the
	// streams while it judges again what the one before has written: it would be older.
	catchUp = 10 * time.Second
)

// Options say how alarms are made.
type Options struct {
	Job string
	// Rules are those of the configuration. They hold from now on if they are not those
	// that the configuration had at the last start; what somebody has set since then
	// (SetRules) stands otherwise. Nil: those that hold stand.
	Rules alarm.Rules
	// Since is where a new alarm log begins: the zero time is now. An alarm log that is
	// there continues.
	Since time.Time
	// Missing lets it continue where predictions are gone that were not judged.
	Missing bool
	// Save is how often the state is stored; 0 = every 30 s.
	Save     time.Duration
	Replicas int    // of what is made on the server; 0 = as the job's output
	Who      string // starts it: where its rules come from
	// TakeOver takes the alarms over at once from a process that keeps them, which ends with
	// ErrFenced. Otherwise this one stands by: it follows the other one, and takes the alarms
	// over when that does not answer any more.
	TakeOver bool
	StandsBy func()             // another process keeps the alarms, and this one knows all that it does; may be nil
	Writes   func()             // this one keeps the alarms from now on; may be nil
	Begun    func(alarm.Rules)  // it has caught up with the log, and judges from now on; may be nil
	Event    func(*alarm.Event) // was published; may be nil
	Log      *slog.Logger
}

// lasting is what a process has from its start to its end, over all connections.
type lasting struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	link    *store.Link
	began   bool   // it has been connected before this time
	claimed string // the writer as which it became that of the log last; empty = it never was
}

// watcher is a process at work.
type watcher struct {
	Options
	process *lasting
	book    *book
	latest  *latest
	fold    *alarm.Fold
	output  jetstream.Stream
	made    time.Time      // the output
	tail    []alarm.Logged // events of the log that have not been judged again
	lost    *lost          // what the output has lost; nil = nothing, or it is dealt with
	standby standby
	pulse   atomic.Pointer[pulse]

	reading   *reader // the output; nil = not yet
	requests  chan *nats.Msg
	looked    mark
	listening time.Time // since then, by the server's clock; zero = not yet
	target    target
	saved     saved
	begun     bool
	noted     map[string]bool // what was said once
}

// lost is what the output has lost.
type lost struct {
	back uint64         // the last message before it
	rest []alarm.Logged // events of what was behind that
}

// target is what the output had when the process began.
type target struct {
	last  uint64
	since time.Time // when it began

	written bool // what is known of the streams
}

// saved is what is known of the stored state.
type saved struct {
	when time.Time // it was stored, or there was nothing to store
	at   [2]uint64 // position and number
	took time.Duration
}

// mark is what the server said of the output, and when.
type mark struct {
	last uint64
	at   time.Time
}

// Run keeps the alarms of a job until ctx ends (nil) or it cannot continue.
func Run(ctx context.Context, nc *nats.Conn, o Options) error {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	sayOnce(&o)
	process := &lasting{nc: nc, js: js, link: store.Follow(nc)}
	for {
		err, wait := run(ctx, process, o), lookEvery
		process.began = true
		switch {
		case errors.Is(err, errLost) && !nc.IsClosed():
			o.Log.Debug("beginning again on the next connection", "err", err)
			wait = againSoon
		case errors.Is(err, errBack):
			o.Log.Warn("beginning again with what the server has; each event that the log has stands", "err", err)
		default:
			return err
		}
		if store.Pause(ctx, wait) != nil {
			return nil
		}
	}
}

// close ends what begin has opened.
func (w *watcher) close() {
	if w.book != nil {
		w.book.close()
	}
	if w.latest != nil {
		w.latest.close()
	}
}

// sayOnce has StandsBy called once, until this process keeps the alarms.
func sayOnce(o *Options) {
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

// beginConnected begins over the present connection. The error is errLost if that was lost
// meanwhile, and nil if ctx has ended.
func (w *watcher) beginConnected(ctx context.Context) (quiet func(), err error) {
	reconnects := w.process.nc.Stats().Reconnects
	up, done := w.process.link.Connection(ctx)
	defer done()
	quiet, err = w.begin(up)
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

// openOutput begins to read the output, unless it is read already.
func (w *watcher) openOutput(ctx context.Context) {
	if w.reading != nil {
		return
	}
	from := w.fold.Position() + 1
	if w.lost != nil {
		from = min(from, w.lost.back+1)
	}
	w.reading = readOutput(ctx, w.process.js, w.process.link, w.Job, from, w.Log)
}

func run(ctx context.Context, process *lasting, o Options) error {
	w := &watcher{
		Options: o, process: process, requests: make(chan *nats.Msg, queue), noted: map[string]bool{},
	}
	defer w.forget()
	defer w.close()
	quiet, err := w.beginConnected(ctx)
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
	err = w.loop(ctx)
	w.reading.stop()
	if err != nil && ctx.Err() != nil { // amid the events of a message: the state has them, the log not yet
		return nil
	}
	if w.standby.warm && !w.begun && (errors.Is(err, ErrDiffers) || errors.Is(err, alarm.ErrMissing)) {
		return fmt.Errorf("%w: what was followed is not what the server has: %w", errBack, err)
	}
	if err != nil {
		return err
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := w.latest.finish(end, w.fold); err != nil {
		return err
	}
	return w.save(end)
}

// enter judges what is there before the loop begins.
func (w *watcher) enter(ctx context.Context) error {
	if err := w.facts(ctx, w.fold.Position()); err != nil {
		return err
	}
	if err := w.look(ctx); err != nil {
		return err
	}
	if held := w.standby.held; held != nil {
		return w.take(ctx, held)
	}
	return nil
}

// loop judges what comes.
func (w *watcher) loop(ctx context.Context) error {
	flush, look := time.NewTicker(latestSoon/2), time.NewTicker(lookEvery)
	defer flush.Stop()
	defer look.Stop()
	if err := w.enter(ctx); err != nil {
		return err
	}
	for {
		if !w.target.written { // at once when it has caught up
			if err := w.write(ctx); err != nil {
				return err
			}
		}
		w.tell()
		requests := w.requests
		if !w.begun { // what comes from outside comes behind the tail
			requests = nil
		}
		var err error
		select {
		case <-ctx.Done():
			return nil
		case err = <-w.reading.failed:
		case o := <-w.reading.outputs:
			err = w.take(ctx, &o)
		case m := <-requests:
			err = w.answer(ctx, m)
		case <-flush.C:
			err = w.write(ctx)
		case <-look.C:
			if err = w.look(ctx); err == nil {
				err = w.saveIfDue(ctx)
			}
		}
		if err != nil {
			return err
		}
	}
}

// write writes what is known of the streams, once that is not older than what the process
// before has written.
func (w *watcher) write(ctx context.Context) error {
	if w.fold.Position() < w.target.last && time.Since(w.target.since) < catchUp {
		return nil
	}
	w.target.written = true
	return w.latest.flush(ctx, w.fold)
}
