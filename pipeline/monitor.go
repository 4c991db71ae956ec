package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/pipeline/internal/owner"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/store"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
)

// streamMonitor watches the NATS streams a run stands on, once a lease. A consumer
// whose NATS stream was deleted waits in silence; of one that was created again, or
// put back from a backup, it reads only what comes behind the numbers it has
// seen. So the run asks whether its input and output are those it began with.
// While they are, it looks after the job's others (auxiliary.go).
type streamMonitor struct {
	run    *run
	inputs *owner.InputWatch
	wrong  map[string]time.Time // since when, by what
	nobody uint64               // messages of no partition, when last told
}

// watchStreams looks until ctx ends or something is lost, and returns that.
func (r *run) watchStreams(ctx context.Context) error {
	w := &streamMonitor{run: r, inputs: owner.NewInputWatch(r.owners), wrong: map[string]time.Time{}}
	for store.Pause(ctx, r.cfg.Lease) == nil {
		if err := w.look(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (w *streamMonitor) look(ctx context.Context) error {
	there := true
	for _, s := range []jetstream.Stream{w.run.in.Stream, w.run.out} {
		name, began := s.CachedInfo().Config.Name, w.run.began[s.CachedInfo().Config.Name]
		seq := owner.Furthest(w.run.ownerships()) // before the question: what is read meanwhile lies beyond
		var opts []jetstream.StreamInfoOpt
		if s == w.run.in.Stream {
			opts = append(opts, jetstream.WithSubjectFilter(w.run.cfg.InputSubject))
		}
		try, cancel := w.run.link.Attempt(ctx)
		info, err := s.Info(try, opts...)
		cancel()
		gone := errors.Is(err, jetstream.ErrStreamNotFound)
		if w.lasts(name+" gone", gone, clustered(s)) {
			return store.LostStream(w.run.cfg.Job, name)
		}
		if err != nil {
			there = false
			continue // away for now: who needs it asks again
		}
		if !info.Created.Equal(began) {
			return fmt.Errorf("pipeline: NATS stream %s was deleted and created again %s, the stage started with the one created %s: restart the stage, and its log says which partitions can continue", name, wire.CreatedText(info.Created), wire.CreatedText(began))
		}
		if err := store.Discards(info.Config); err != nil {
			return err
		}
		if s != w.run.in.Stream || w.run.stage.guard.Trusting {
			continue
		}
		w.unmapped(name, info.State.Subjects)
		if w.lasts("tail", info.State.LastSeq < seq, clustered(s)) {
			return fmt.Errorf("pipeline: %s ends at message %d, but the stage has read message %d: the input lost its tail; %s", name, info.State.LastSeq, seq, store.OtherHistory)
		}
		owned := w.run.ownerships()
		w.inputs.Same(ctx, w.run.interruptions(), owned)
		w.inputs.LookBehind(ctx, info, owned)
	}
	if there { // nothing is made on a server that lacks the job
		w.run.auxiliary.LookAll(ctx)
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
		w.run.log.Warn("input messages belong to no partition and are never read: the keys * and > are wildcards; publish them again under other keys", "stream", name, "messages", n, "subject", which)
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

// ownerships are those that the manager has shown.
func (r *run) ownerships() map[int]*owner.Ownership {
	if v := r.view.Load(); v != nil {
		return v.owned
	}
	return nil
}

// interruptions counts what a server that was away cannot do without: breaks of
// connections, recoveries of consumers.
func (r *run) interruptions() uint64 {
	return r.counters.Resets.Load() + r.conns.breaks()
}
