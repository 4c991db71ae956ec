package watch

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/pipeline/alarm"
	"github.com/eusn-stream/eusn-stream/pipeline/consumer"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/store"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
)

const (
	toldEvery   = 10 * time.Second
	lookEvery   = time.Second
	saveEvery   = 30 * time.Second
	stopTimeout = 10 * time.Second
	// catchUp is how long a process that begins writes nothing of what is known of the
	// streams while it judges again what the one before has written: it would be older.
	catchUp = 10 * time.Second
	queue   = 64 // messages that were read and not judged
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
	Replicas int                // of what is made on the server; 0 = as the job's output
	Who      string             // starts it: where its rules come from
	Begun    func(alarm.Rules)  // it has caught up with the log, and judges from now on; may be nil
	Event    func(*alarm.Event) // was published; may be nil
	Log      *slog.Logger
}

// watcher is a process at work.
type watcher struct {
	Options
	js     jetstream.JetStream
	book   *book
	latest *latest
	fold   *alarm.Fold
	output jetstream.Stream
	made   time.Time      // the output
	tail   []alarm.Logged // events of the log that have not been judged again
	lost   *lost          // what the output has lost; nil = nothing, or it is dealt with

	outputs   chan consumer.Output // what was read; those without a time have no predictions
	failed    chan error           // reading
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
	for {
		err := run(ctx, nc, js, o)
		if !errors.Is(err, errBack) {
			return err
		}
		o.Log.Warn("beginning again with what the server has; each event that the log has stands", "err", err)
		if store.Pause(ctx, lookEvery) != nil {
			return nil
		}
	}
}

func run(ctx context.Context, nc *nats.Conn, js jetstream.JetStream, o Options) error {
	if err := Ensure(ctx, js, o.Job, o.Replicas); err != nil {
		return err
	}
	w := &watcher{
		Options: o, js: js, outputs: make(chan consumer.Output, queue), failed: make(chan error, 1),
		requests: make(chan *nats.Msg, queue), noted: map[string]bool{},
	}
	var err error
	if w.book, err = openBook(ctx, js, store.Follow(nc), o.Job, rand.Text(), o.Log); err != nil {
		return err
	}
	if w.latest, err = newLatest(nc, w.book); err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	if err := w.begin(ctx); ctx.Err() != nil {
		return nil
	} else if err != nil {
		return err
	}
	sub, err := nc.ChanSubscribe(wire.AlarmRequestSubjects(o.Job), w.requests)
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	reading, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	from := w.fold.Position() + 1
	if w.lost != nil {
		from = min(from, w.lost.back+1)
	}
	go func() { defer close(ended); w.read(reading, from) }()
	err = w.loop(ctx)
	stop()
	<-ended
	if err != nil && ctx.Err() != nil { // amid the events of a message: the state has them, the log not yet
		return nil
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

// read hands the output to the loop, from a message on, until ctx ends.
func (w *watcher) read(ctx context.Context, from uint64) {
	hand := func(o consumer.Output) error {
		select {
		case w.outputs <- o:
			from = o.Seq + 1
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	pass := func(seq uint64) { _ = hand(consumer.Output{Seq: seq}) }
	skip := func(e *consumer.ForeignError) {
		w.Log.Warn("a message of the output is no prediction, and is left out", "err", e)
		pass(e.Seq)
	}
	for ctx.Err() == nil {
		err := consumer.Read(ctx, w.js, w.Job, consumer.Span{From: from, Skip: skip, Passed: pass}, hand)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, jetstream.ErrStreamNotFound) && w.js.Conn().IsConnected() {
			if _, again := w.js.Stream(ctx, wire.OutputStream(w.Job)); errors.Is(again, jetstream.ErrStreamNotFound) {
				w.failed <- err
				return
			}
		}
		w.Log.Warn("reading the job's output again", "from", from, "err", err)
		if store.Pause(ctx, lookEvery) != nil {
			return
		}
	}
}

// loop judges what comes.
func (w *watcher) loop(ctx context.Context) error {
	flush, look := time.NewTicker(latestEvery), time.NewTicker(lookEvery)
	defer flush.Stop()
	defer look.Stop()
	if err := w.facts(ctx, w.fold.Position()); err != nil {
		return err
	}
	if err := w.look(ctx); err != nil {
		return err
	}
	for {
		requests := w.requests
		if !w.begun { // what comes from outside comes behind the tail
			requests = nil
		}
		var err error
		select {
		case <-ctx.Done():
			return nil
		case err = <-w.failed:
		case o := <-w.outputs:
			if err = w.take(ctx, &o); err == nil && !w.target.written { // at once when it has caught up
				err = w.write(ctx)
			}
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

// take judges a message of the output.
func (w *watcher) take(ctx context.Context, o *consumer.Output) error {
	if o.Seq <= w.fold.Position() {
		return nil
	}
	if err := w.silences(ctx, o.Seq); err != nil { // what the server said before it had this one
		return err
	}
	if o.Stored.IsZero() {
		w.fold.Pass(o.Seq)
		return w.facts(ctx, o.Seq)
	}
	m := alarm.Message{Seq: o.Seq, Stored: o.Stored, Partition: o.Partition, Outs: o.Outs, Labels: o.Meta.Labels, Predictions: o.Predictions}
	err := w.fold.Missing(&m)
	if errors.Is(err, alarm.ErrMissing) {
		if back, _, again := w.replaced(ctx); again == nil && back {
			return fmt.Errorf("%w: messages of %s that were judged are others now", errBack, wire.OutputStream(w.Job))
		}
	}
	if err == nil {
		err = w.reached(ctx, o.Seq-1)
	}
	if errors.Is(err, alarm.ErrMissing) && w.Missing {
		w.Log.Warn("continuing without predictions that are gone; alarms that are on stay on", "err", err)
		if err = w.believe(o.Seq - 1); err == nil {
			w.fold.Skip(o.Seq - 1)
			err = w.save(ctx)
		}
		if err == nil {
			err = w.start(ctx)
		}
	}
	if err != nil {
		return err
	}
	w.note(&m)
	events, err := w.fold.Take(&m)
	if w.fold.Crowded() {
		w.Log.Warn("rules of kind drift have too many keys: those that come now have no alarm of drift; give the rules fewer streams (streams S) or count groups of them (by)", "keys", alarm.MostSeries)
	}
	if w.fold.Full() {
		w.Log.Warn("too many streams, and all of them have alarms: those that come now are not judged; run jobs of fewer streams, or find out why every stream has an alarm", "streams", alarm.MostStreams)
	}
	if err == nil {
		err = w.emit(ctx, events)
	}
	if err == nil {
		err = w.facts(ctx, o.Seq)
	}
	if err == nil {
		err = w.saveIfDue(ctx)
	}
	return err
}

// saveIfDue stores the state from time to time. A process that catches up does it more
// often: if another one takes over meanwhile, that one goes on from there.
func (w *watcher) saveIfDue(ctx context.Context) error {
	every := cmp.Or(w.Save, saveEvery)
	if w.fold.Position() < w.target.last || len(w.tail) > 0 {
		every = min(every, max(time.Second, 10*w.saved.took))
	}
	if time.Since(w.saved.when) < every {
		return nil
	}
	return w.save(ctx)
}

// reached is facts, where the output has nothing up to a position that was not judged. If
// it does not have the message any more from which an event follows, the error is
// ErrMissing.
func (w *watcher) reached(ctx context.Context, position uint64) error {
	err := w.facts(ctx, position)
	if !errors.Is(err, ErrDiffers) {
		return err
	}
	try, cancel := w.book.link.Attempt(ctx)
	defer cancel()
	switch _, lost := w.output.GetMsg(try, w.tail[0].Event.Position); {
	case errors.Is(lost, jetstream.ErrMsgNotFound):
		return fmt.Errorf("watch: %w: those in message %d of %s, of which event %d was made", alarm.ErrMissing, w.tail[0].Event.Position, wire.OutputStream(w.Job), w.tail[0].Event.Number)
	case lost != nil: // not known
		return fmt.Errorf("watch: message %d of %s: %w", w.tail[0].Event.Position, wire.OutputStream(w.Job), lost)
	}
	return err
}

// facts takes the events of the tail that come at or before a position and follow from
// no prediction, and begins when there is no tail any more.
func (w *watcher) facts(ctx context.Context, position uint64) error {
	for len(w.tail) > 0 && w.tail[0].Event.Position <= position {
		e := &w.tail[0].Event
		follows, err := w.fold.Apply(*e)
		if err != nil {
			return differs(w.Job, e, err)
		}
		w.tail = w.tail[1:]
		if err := w.emit(ctx, follows); err != nil {
			return err
		}
	}
	if len(w.tail) > 0 || w.lost != nil && position < w.lost.back {
		return nil
	}
	if w.lost != nil {
		if err := w.resume(ctx); err != nil {
			return err
		}
	}
	return w.start(ctx)
}

// ErrDiffers is the error where the log is not what follows from the predictions.
var ErrDiffers = errors.New("the alarm log is not what follows from the job's predictions")

func differs(job string, e *alarm.Event, why error) error {
	return fmt.Errorf("watch: %w: event %d at position %d: %w: it was written by another program, or the output was changed; use the program that wrote it; or %s", ErrDiffers, e.Number, e.Position, why, anew(job))
}

// emit publishes events, or finds them in the tail.
func (w *watcher) emit(ctx context.Context, events []alarm.Event) error {
	for i := range events {
		e := &events[i]
		if len(w.tail) == 0 {
			judged, by := e.Judged()
			if err := w.publish(ctx, &alarm.Logged{Event: *e, Judged: judged, By: by}); err != nil {
				return err
			}
			continue
		}
		was := w.tail[0].Event
		same := e.As(&was)
		a, err1 := same.Marshal()
		b, err2 := was.Marshal()
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		if !bytes.Equal(a, b) {
			return differs(w.Job, &was, fmt.Errorf("it is %s, want %s", b, a))
		}
		w.tail = w.tail[1:]
	}
	return nil
}

// publish stores an event.
func (w *watcher) publish(ctx context.Context, e *alarm.Logged) error {
	if err := w.book.event(ctx, e); err != nil {
		return err
	}
	if w.Event != nil {
		w.Event(&e.Event)
	}
	return nil
}

// add stores a fact and takes it.
func (w *watcher) add(ctx context.Context, e alarm.Event) error {
	if err := w.publish(ctx, &alarm.Logged{Event: e, Judged: w.fold.Judged()}); err != nil {
		return err
	}
	follows, err := w.fold.Apply(e)
	if err != nil {
		return err
	}
	return w.emit(ctx, follows)
}

// save stores the state, if it is another one than before.
func (w *watcher) save(ctx context.Context) error {
	now := [2]uint64{w.fold.Position(), w.fold.Number()}
	w.saved.when = time.Now()
	if now == w.saved.at || w.lost != nil { // what the rest is about is not reached yet
		return nil
	}
	w.latest.unsure(w.fold)
	if err := w.book.save(ctx, w.fold, w.tail, w.made); err != nil {
		return err
	}
	w.saved.at, w.saved.took = now, time.Since(w.saved.when)
	return nil
}
