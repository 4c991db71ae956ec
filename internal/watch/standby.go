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

// maxStandbyAge is the maximum age of a standby's state if the stored state is newer.
const maxStandbyAge = 10 * time.Second

// mostSets is the maximum number of change sets; after that the two oldest sets are merged.
const mostSets = 64

// standby is the state of a process that follows the keeper of the alarms.
type standby struct {
	following bool             // this process follows and publishes nothing
	tookOver  bool             // this process followed and now keeps the alarms
	lastRead  uint64           // last log message read
	anchor    anchor           // the last event in the log
	held      *consumer.Output // read, but not yet judged by the keeper
	caughtUp  time.Time        // when this process last had the keeper's state
	sets      []changeSet      // changes that the bucket may lack, oldest first
}

// anchor is a log message and its storage time, ns since 1970.
type anchor struct {
	seq    uint64
	stored int64
}

// changeSet names the streams that changed up to a progress.
type changeSet struct {
	progress progress
	streams  map[string]bool
}

// errDiverged means that a standby can no longer follow and restarts from the stored state.
var errDiverged = errors.New("the alarm log differs from the followed state")

// standBy follows the process that keeps the alarms until no process keeps them.
func (w *watcher) standBy(ctx context.Context, first pulse, asker *asker) error {
	warned := time.Time{}
	for {
		err := w.followKeeper(ctx, first, asker)
		if w.standby.following = false; err == nil || ctx.Err() != nil || errors.Is(err, errLost) {
			return err
		}
		w.discardState()
		if time.Since(warned) > warnEvery {
			warned = time.Now()
			w.Log.Info("standing by: restarting from the stored state", "err", err)
		}
		if err := store.Pause(ctx, askEvery); err != nil {
			return err
		}
		now, err := asker.askPulse(ctx)
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

// discardState drops the state that the process followed.
func (w *watcher) discardState() {
	if w.reading != nil {
		w.reading.stop()
	}
	w.reading, w.fold, w.tail, w.standby = nil, nil, nil, standby{}
}

// followKeeper reads the log and the output, and judges the messages that the keeper has judged,
// until the keeper no longer answers (nil).
func (w *watcher) followKeeper(ctx context.Context, now pulse, asking *asker) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	heard := time.Now()
	answers := make(chan pulseAnswer)
	go asking.askRepeatedly(ctx, answers)
	log, err := w.startFollowing(ctx)
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
			if over, err := w.handlePulse(a, &now, heard); over || err != nil {
				return err
			}
		case m, more := <-log:
			if !more {
				return fmt.Errorf("%w: reading the alarm log stopped", errDiverged)
			}
			heard, err = time.Now(), w.addLogged(m)
		case o := <-outputs:
			s.held = &o
		case err = <-w.readerFailed():
		}
		if err == nil {
			err = w.judgeHeld(ctx, now)
		}
		if err != nil {
			return err
		}
		w.noteCaughtUp(now)
	}
}

// wantsOutput reports whether the next output message should be judged: this process has all log
// events of the keeper's last answer, and the keeper has judged more messages.
func (w *watcher) wantsOutput(now pulse) bool {
	s := &w.standby
	return s.lastRead >= now.Last && s.held == nil && w.fold.Position() < now.Position
}

// noteCaughtUp records the time if this process has judged everything that the keeper has judged.
func (w *watcher) noteCaughtUp(now pulse) {
	s := &w.standby
	if s.lastRead >= now.Last && (w.fold.Position() >= now.Position || s.held != nil) {
		s.caughtUp = time.Now()
		w.recordChanges(now.Written)
		w.compareRules()
		w.StandsBy()
	}
}

// handlePulse handles an answer of the keeper. heard is when the last log message arrived. over
// means that the keeper no longer answers.
func (w *watcher) handlePulse(a pulseAnswer, now *pulse, heard time.Time) (over bool, err error) {
	switch {
	case errors.Is(a.err, errNobody):
		return true, nil
	case errors.Is(a.err, errLost):
		return false, a.err
	case a.err != nil: // asked once more
		return false, nil
	case w.standby.lastRead < now.Last && time.Since(heard) > maxStandbyAge:
		return false, fmt.Errorf("%w: messages of the alarm log do not arrive", errDiverged)
	}
	*now = a.pulse
	return false, nil
}

// judgeHeld judges the held message if the keeper has judged it and the log has been read up to the
// keeper's last event.
func (w *watcher) judgeHeld(ctx context.Context, now pulse) error {
	s := &w.standby
	if s.held == nil || s.held.Seq > now.Position || s.lastRead < now.Last {
		return nil
	}
	o := s.held
	s.held = nil
	return w.judgeOutput(ctx, o)
}

// compareRules warns if this process will change the rules when it takes the alarms over.
func (w *watcher) compareRules() {
	if _, configured := w.fold.Rules(); w.Rules != nil && fingerprint(w.Rules) != configured && w.fold.Number() > 0 {
		w.warnOnce("rules", "the rules of this configuration differ from the rules that the active process started with: they apply when this process takes the alarms over")
	}
}

// readerFailed returns the channel that reports the end of the output reader.
func (w *watcher) readerFailed() chan error {
	if w.reading == nil {
		return nil
	}
	return w.reading.failed
}

// startFollowing loads the stored state and reads the later log messages.
func (w *watcher) startFollowing(ctx context.Context) (chan logMessage, error) {
	known, err := w.book.readRecord(ctx)
	if err == nil && !known {
		err = fmt.Errorf("%w: the log has no record", errDiverged)
	}
	if err != nil {
		return nil, err
	}
	if w.fold, err = w.book.readState(ctx); err != nil {
		return nil, err
	}
	w.tail = w.fold.Tail()
	w.standby = standby{following: true, lastRead: w.book.record.Last}
	w.reading = readOutput(context.WithoutCancel(ctx), w.process.js, w.book.link, w.Job, w.fold.Position()+1, w.Log) // the reader continues after a take-over
	log := make(chan logMessage, queueSize)
	go func() {
		defer close(log)
		err := w.book.followMessages(ctx, w.book.record.Last+1, func(m logMessage) {
			select {
			case log <- m:
			case <-ctx.Done():
			}
		})
		if ctx.Err() == nil {
			w.Log.Debug("standing by: cannot read the alarm log", "err", err)
		}
	}()
	return log, nil
}

// addLogged handles a message of the log.
func (w *watcher) addLogged(m logMessage) error {
	w.standby.lastRead = m.seq
	if m.event == nil {
		return nil
	}
	if isResumption(m.event) { // the output changed: the stored state names the new position
		return fmt.Errorf("%w: %s", errDiverged, m.event.Event.Why)
	}
	w.standby.anchor = anchor{m.seq, m.stored.UnixNano()}
	w.tail = append(w.tail, *m.event)
	return nil
}

// recordChanges records the changed streams and drops the change sets that the bucket has.
func (w *watcher) recordChanges(written progress) {
	s := &w.standby
	if names := w.fold.TakeChangedNames(); len(names) > 0 {
		s.sets = append(s.sets, changeSet{progressOf(w.fold), names})
	}
	for len(s.sets) > 0 && s.sets[0].progress.Position <= written.Position && s.sets[0].progress.Number <= written.Number {
		s.sets = s.sets[1:]
	}
	if len(s.sets) > mostSets {
		maps.Copy(s.sets[1].streams, s.sets[0].streams)
		s.sets = s.sets[1:]
	}
}

// canTakeOver reports whether this process can continue from the state that it followed; the book's
// record is the newest.
func (w *watcher) canTakeOver(ctx context.Context) bool {
	s := &w.standby
	if w.fold == nil || time.Since(s.caughtUp) > maxStandbyAge && w.book.record.InState > w.fold.Position() {
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

// answerPulses answers questions until quiet is called.
func (w *watcher) answerPulses() (quiet func(), err error) {
	w.pulse.Store(&pulse{Writer: w.book.writer})
	sub, err := w.process.nc.Subscribe(wire.AlarmAliveSubject(w.Job), func(m *nats.Msg) {
		if m.Subject != wire.AlarmAliveSubject(w.Job) || !natsclient.AnswersTo(w.process.nc, m.Reply) {
			return // a consumer delivers here
		}
		if data, err := json.Marshal(w.pulse.Load()); err == nil {
			_ = m.Respond(data)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	quiet = func() { _ = sub.Unsubscribe() }
	try, cancel := w.book.link.Attempt(context.Background())
	defer cancel()
	if err = w.process.nc.FlushWithContext(try); err != nil { // after the flush, questions are answered
		quiet() // otherwise the client subscribes on the next connection, and each process stands by
		return nil, fmt.Errorf("watch: %w", err)
	}
	return quiet, nil
}
