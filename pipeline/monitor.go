package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/pipeline/internal/store"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
	"github.com/eusn-stream/eusn-stream/pipeline/natsclient"
)

// streamMonitor watches the NATS streams a run stands on, once a lease. A consumer
// whose NATS stream was deleted waits in silence; of one that was created again, or
// put back from a backup, it reads only what comes behind the numbers it has
// seen. So the run asks whether its input and output are those it began with.
// While they are, it looks after the job's others (auxiliary.go).
type streamMonitor struct {
	*run
	wrong  map[string]time.Time // since when, by what
	heard  map[int]wire.Place   // what each partition stood on at the last look
	breaks uint64               // of connections and consumers, when all was last found to be as it was
	nobody uint64               // messages of no partition, when last told
}

// watchStreams looks until ctx ends or something is lost, and returns that.
func (r *run) watchStreams(ctx context.Context) error {
	w := &streamMonitor{run: r, wrong: map[string]time.Time{}, heard: map[int]wire.Place{}}
	for store.Pause(ctx, r.cfg.Lease) == nil {
		if err := w.look(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (w *streamMonitor) look(ctx context.Context) error {
	there := true
	for _, s := range []jetstream.Stream{w.in, w.out} {
		name, began := s.CachedInfo().Config.Name, w.began[s.CachedInfo().Config.Name]
		seq := w.furthest() // before the question: what is read meanwhile lies beyond
		var opts []jetstream.StreamInfoOpt
		if s == w.in {
			opts = append(opts, jetstream.WithSubjectFilter(w.cfg.InputSubject))
		}
		try, cancel := w.link.Attempt(ctx)
		info, err := s.Info(try, opts...)
		cancel()
		gone := errors.Is(err, jetstream.ErrStreamNotFound)
		if w.lasts(name+" gone", gone, clustered(s)) {
			return lostStream(w.cfg.Job, name)
		}
		if err != nil {
			there = false
			continue // away for now: who needs it asks again
		}
		if !info.Created.Equal(began) {
			return fmt.Errorf("pipeline: NATS stream %s was deleted and created again %s, the stage started with the one created %s: restart the stage, and its log says which partitions can continue", name, wire.CreatedText(info.Created), wire.CreatedText(began))
		}
		if err := discards(info.Config); err != nil {
			return err
		}
		if s != w.in || w.guard.trusting {
			continue
		}
		w.unmapped(name, info.State.Subjects)
		if w.lasts("tail", info.State.LastSeq < seq, clustered(s)) {
			return fmt.Errorf("pipeline: %s ends at message %d, but the stage has read message %d: the input lost its tail; %s", name, info.State.LastSeq, seq, otherHistory)
		}
		w.same(ctx)
		w.lookBehind(ctx, info)
	}
	if there { // nothing is made on a server that lacks the job
		for _, name := range w.auxiliary.names {
			w.auxiliary.look(ctx, name)
		}
	}
	return nil
}

// unmapped tells of input messages that belong to no partition. The server
// takes "*" and ">" for keys, but maps no such subject: it stores the message as
// it came, acknowledges it, and no consumer of a partition ever sees it.
func (w *streamMonitor) unmapped(name string, subjects map[string]uint64) {
	n, which := uint64(0), ""
	for s, messages := range subjects {
		if strings.HasSuffix(s, ".*") || strings.HasSuffix(s, ".>") {
			n, which = n+messages, s
		}
	}
	if n > w.nobody {
		w.log.Warn("input messages belong to no partition and are never read: the keys * and > are wildcards; publish them again under other keys", "stream", name, "messages", n, "subject", which)
	}
	w.nobody = n
}

// clustered reports whether the leader of a NATS stream may change. A server
// alone says that it leads, in a cluster without a name.
func clustered(s jetstream.Stream) bool {
	c := s.CachedInfo().Cluster
	return c != nil && c.Name != ""
}

// lasts reports whether something is wrong for the second time in a row; in a
// cluster, whose new leader may answer from the past, after staleGrace.
func (w *streamMonitor) lasts(what string, wrong, clustered bool) bool {
	since, before := w.wrong[what]
	switch {
	case !wrong:
		delete(w.wrong, what)
		return false
	case !before:
		w.wrong[what] = time.Now()
		return false
	}
	return !clustered || time.Since(since) > store.StaleGrace
}

// lostStream words the loss of a job's input or output.
func lostStream(job, name string) error {
	if name == wire.InputStream(job) {
		return fmt.Errorf("pipeline: NATS stream %s is gone: %s", name, lostTrack)
	}
	return fmt.Errorf("pipeline: NATS stream %s is gone. It held the position of each partition. Do not restart before it is restored: partitions with snapshots would refuse to start, and the others would predict all that %s still holds a second time: %s", name, wire.InputStream(job), lostTrack)
}

// furthest is the last input message that any partition stands on.
func (r *run) furthest() (seq uint64) {
	for _, t := range r.ownerships() {
		seq = max(seq, t.part.came.load().Seq)
	}
	return seq
}

// ownerships are those that the manager has shown.
func (r *run) ownerships() map[int]*ownership {
	if v := r.view.Load(); v != nil {
		return v.owned
	}
	return nil
}

// same makes sure, after a connection or a consumer had to recover, that each
// partition's last message is still the one it was. A partition that hears
// nothing more finds it out here; one that does, when its consumer starts again.
func (w *streamMonitor) same(ctx context.Context) {
	breaks := w.interruptions()
	if breaks == w.breaks {
		return
	}
	for _, t := range w.ownerships() {
		if !t.reading.Load() || t.failed.Load() {
			continue // a claim looks by itself
		}
		if err := t.unchanged(ctx, t.part.state.ID, t.part.came.load()); err != nil && ctx.Err() == nil {
			t.fail(err)
		}
	}
	w.breaks = breaks
}

// interruptions counts what a server that was away cannot do without: breaks of
// connections, recoveries of consumers.
func (r *run) interruptions() uint64 {
	n := r.counters.Resets.Load()
	r.connsMu.Lock()
	defer r.connsMu.Unlock()
	for _, c := range r.conns {
		n += c.breaks.Load()
	}
	return n
}

// lastPlace is the furthest input message that a partition stands on: the last
// that its consumer brought or, after a claim, the last that its record rests
// on. One goroutine stores.
type lastPlace struct {
	seq    atomic.Uint64
	stored atomic.Int64
}

// store takes note of a message behind all before it; one that is replayed is
// none.
func (l *lastPlace) store(at wire.Place) {
	if at.Seq <= l.seq.Load() {
		return
	}
	l.seq.Store(0) // a reader between the two sees that
	l.stored.Store(at.Stored)
	l.seq.Store(at.Seq)
}

func (l *lastPlace) load() wire.Place {
	at := wire.Place{Seq: l.seq.Load(), Stored: l.stored.Load()}
	if l.seq.Load() != at.Seq {
		return wire.Place{}
	}
	return at
}

// missing is how long a NATS stream has not been found without a break.
type missing struct{ since time.Time }

// confirmed notes a question's outcome, and reports whether the NATS stream is
// gone: a cluster that is choosing leaders may not find it for a moment.
func (m *missing) confirmed(err error) bool {
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		m.since = time.Time{}
		return false
	}
	if m.since.IsZero() {
		m.since = time.Now()
	}
	return time.Since(m.since) > store.StaleGrace
}

// toldEvery is how often a partition that waits for the server says so.
const toldEvery = 10 * time.Second

// waiting is what a partition waits for while the server does not take it.
type waiting struct {
	since, told time.Time
	why         string
}

// waits notes that the server did not take something of the partition's, which
// is asked for again unless the partition has ended: then that is the error.
// Only who publishes calls it.
func (t *ownership) waits(what string, err error) error {
	if t.failed.Load() {
		return fmt.Errorf("%w: %s", errUnfinished, what)
	}
	w := t.waiting.Load()
	now := time.Now()
	next := &waiting{since: now, told: now, why: fmt.Sprintf("%s: %v", what, natsclient.Plain(err))}
	if w != nil {
		next.since, next.told = w.since, w.told
	}
	if now.Sub(next.told) >= toldEvery {
		next.told = now
		t.log.Warn("publish failed, retrying: check that the NATS stream exists and has space", "partition", t.part.state.ID, "what", what, "err", natsclient.Plain(err))
	}
	t.waiting.Store(next)
	return nil
}

// taken notes that the server has what it was asked to take.
func (t *ownership) taken() {
	if t.waiting.Load() != nil {
		t.waiting.Store(nil)
	}
}
