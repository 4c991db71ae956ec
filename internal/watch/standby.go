package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// fresh is how old what a standby knows may be, if the stored state is of later.
const fresh = 10 * time.Second

// mostSets is how often a standby notes which streams have changed, before it puts the
// oldest of these together.
const mostSets = 64

// standby is what a process knows that follows the one which keeps the alarms.
type standby struct {
	on       bool             // it follows: it publishes nothing
	warm     bool             // it has followed, and keeps the alarms now
	followed uint64           // message of the log
	anchor   anchor           // the last event there
	held     *consumer.Output // read, and not judged by the other process when it was asked
	reached  time.Time        // when it knew all that the other one did
	sets     []changes        // what the bucket may not have, oldest first
}

// anchor is a message of the log, and when it was stored, ns since 1970.
type anchor struct {
	seq    uint64
	stored int64
}

// changes are the streams about which something else was known at a stage than at the one
// before.
type changes struct {
	at      stage
	streams map[string]bool
}

// errAgain is the error where a standby does not follow any more, and begins again with the
// stored state.
var errAgain = errors.New("the alarms are not what this process has followed")

// standBy follows the process that keeps the alarms until none does.
func (w *watcher) standBy(ctx context.Context, first pulse, asker *asker) error {
	told := time.Time{}
	for {
		err := w.follow(ctx, first, asker)
		if w.standby.on = false; err == nil || ctx.Err() != nil || errors.Is(err, errLost) {
			return err
		}
		w.forget()
		if time.Since(told) > toldEvery {
			told = time.Now()
			w.Log.Info("standing by: beginning again with the stored state", "err", err)
		}
		if err := store.Pause(ctx, askEvery); err != nil {
			return err
		}
		now, err := asker.ask(ctx)
		switch {
		case errors.Is(err, errNobody):
			return nil
		case errors.Is(err, errLost):
			return err
		case err == nil:
			first = now
		}
	}
}

// forget leaves all out that the process has followed.
func (w *watcher) forget() {
	if w.reading != nil {
		w.reading.stop()
	}
	w.reading, w.fold, w.tail, w.standby = nil, nil, nil, standby{}
}

// follow reads the log and the output, and judges what the other process has judged, until
// that one does not answer any more (nil).
func (w *watcher) follow(ctx context.Context, now pulse, asking *asker) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	heard := time.Now()
	answers := make(chan answered)
	go asking.forever(ctx, answers)
	log, err := w.beginToFollow(ctx)
	if err != nil {
		return err
	}
	s := &w.standby
	for {
		var outputs <-chan consumer.Output
		if w.wantsOutput(now) {
			outputs = w.reading.outputs
		}
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case a := <-answers:
			*asking = a.asker
			if over, err := w.hearPulse(a, &now, heard); over || err != nil {
				return err
			}
		case m, more := <-log:
			if !more {
				return fmt.Errorf("%w: the log is not read any more", errAgain)
			}
			heard, err = time.Now(), w.hear(m)
		case o := <-outputs:
			s.held = &o
		case err = <-w.failed():
		}
		if err == nil {
			err = w.judgeHeld(ctx, now)
		}
		if err != nil {
			return err
		}
		w.noteReached(now)
	}
}

// wantsOutput reports whether another message of the output is to be judged: all events are
// known of what the other process has judged, and it has judged more than this one.
func (w *watcher) wantsOutput(now pulse) bool {
	s := &w.standby
	return s.followed >= now.Last && s.held == nil && w.fold.Position() < now.Position
}

// noteReached notes that all is judged that the other process has judged, if it is.
func (w *watcher) noteReached(now pulse) {
	s := &w.standby
	if s.followed >= now.Last && (w.fold.Position() >= now.Position || s.held != nil) {
		s.reached = time.Now()
		w.noteChanges(now.Written)
		w.compareRules()
		w.StandsBy()
	}
}

// hearPulse takes an answer of the other process, which was heard in the log last at heard.
// over says that it does not answer any more.
func (w *watcher) hearPulse(a answered, now *pulse, heard time.Time) (over bool, err error) {
	switch {
	case errors.Is(a.err, errNobody):
		return true, nil
	case errors.Is(a.err, errLost):
		return false, a.err
	case a.err != nil: // it is asked again
		return false, nil
	case w.standby.followed < now.Last && time.Since(heard) > fresh:
		return false, fmt.Errorf("%w: what the log has does not come", errAgain)
	}
	*now = a.pulse
	return false, nil
}

// judgeHeld judges the message that is held, if the other process has judged it and the log
// has been read as far.
func (w *watcher) judgeHeld(ctx context.Context, now pulse) error {
	s := &w.standby
	if s.held == nil || s.held.Seq > now.Position || s.followed < now.Last {
		return nil
	}
	o := s.held
	s.held = nil
	return w.take(ctx, o)
}

// compareRules warns where this process will change the rules when it takes the alarms over.
func (w *watcher) compareRules() {
	if _, configured := w.fold.Rules(); w.Rules != nil && fingerprint(w.Rules) != configured && w.fold.Number() > 0 {
		w.say("rules", "the rules of this configuration are not those that the process which keeps the alarms began with: they hold from when this one takes the alarms over")
	}
}

// failed is where the reader of the output says that it has ended.
func (w *watcher) failed() chan error {
	if w.reading == nil {
		return nil
	}
	return w.reading.failed
}

// beginToFollow takes the stored state, and reads what comes behind it.
func (w *watcher) beginToFollow(ctx context.Context) (chan logged, error) {
	known, err := w.book.read(ctx)
	if err == nil && !known {
		err = fmt.Errorf("%w: the log has no record", errAgain)
	}
	if err != nil {
		return nil, err
	}
	if w.fold, err = w.book.state(ctx); err != nil {
		return nil, err
	}
	w.tail = w.fold.Tail()
	w.standby = standby{on: true, followed: w.book.record.Last}
	w.reading = readOutput(context.WithoutCancel(ctx), w.process.js, w.book.link, w.Job, w.fold.Position()+1, w.Log) // it goes on where this process takes over
	log := make(chan logged, queue)
	go func() {
		defer close(log)
		err := w.book.follow(ctx, w.book.record.Last+1, func(m logged) {
			select {
			case log <- m:
			case <-ctx.Done():
			}
		})
		if ctx.Err() == nil {
			w.Log.Debug("standing by: reading the alarm log", "err", err)
		}
	}()
	return log, nil
}

// hear takes a message of the log.
func (w *watcher) hear(m logged) error {
	w.standby.followed = m.seq
	if m.event == nil {
		return nil
	}
	if resumed(m.event) { // the output is another one: the stored state says from where on
		return fmt.Errorf("%w: %s", errAgain, m.event.Event.Why)
	}
	w.standby.anchor = anchor{m.seq, m.stored.UnixNano()}
	w.tail = append(w.tail, *m.event)
	return nil
}

// noteChanges notes which streams have changed, and leaves out what the bucket has.
func (w *watcher) noteChanges(written stage) {
	s := &w.standby
	if names := w.fold.TakeChanged(); len(names) > 0 {
		s.sets = append(s.sets, changes{at(w.fold), names})
	}
	for len(s.sets) > 0 && s.sets[0].at.Position <= written.Position && s.sets[0].at.Number <= written.Number {
		s.sets = s.sets[1:]
	}
	if len(s.sets) > mostSets {
		maps.Copy(s.sets[1].streams, s.sets[0].streams)
		s.sets = s.sets[1:]
	}
}

// ready reports whether what this process has followed is what it can go on with; record is
// the newest one.
func (w *watcher) ready(ctx context.Context) bool {
	s := &w.standby
	if w.fold == nil || time.Since(s.reached) > fresh && w.book.record.InState > w.fold.Position() {
		return false
	}
	if s.anchor.seq == 0 {
		return true
	}
	try, cancel := w.book.link.Attempt(ctx)
	defer cancel()
	m, err := w.book.stream.GetMsg(try, s.anchor.seq)
	return err == nil && m.Time.UnixNano() == s.anchor.stored
}

// tell notes what the process answers from now on.
func (w *watcher) tell() {
	w.pulse.Store(&pulse{Writer: w.book.writer, Position: w.fold.Position(), Last: w.book.last, Written: w.latest.written})
}

// listen answers those who ask, until quiet is called.
func (w *watcher) listen() (quiet func(), err error) {
	w.pulse.Store(&pulse{Writer: w.book.writer})
	sub, err := w.process.nc.Subscribe(wire.AlarmAliveSubject(w.Job), func(m *nats.Msg) {
		if m.Subject != wire.AlarmAliveSubject(w.Job) || !natsclient.AnswersTo(w.process.nc, m.Reply) {
			return // a consumer delivers here
		}
		if data, err := json.Marshal(w.pulse.Load()); err == nil {
			_ = m.Respond(data)
		}
	})
	if err == nil { // a process that asks from now on is heard
		try, cancel := w.book.link.Attempt(context.Background())
		err = w.process.nc.FlushWithContext(try)
		cancel()
	}
	if err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	return func() { _ = sub.Unsubscribe() }, nil
}
