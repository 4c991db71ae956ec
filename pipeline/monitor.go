package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/owner"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// streamMonitor checks the NATS streams of a run, once per lease. A consumer of a
// deleted NATS stream waits silently; after a recreation or a restore, it reads only
// messages after the consumer's last number. So the run checks for unchanged input and
// output, and then maintains the job's other NATS streams (store.Auxiliary).
type streamMonitor struct {
	worker *owner.Worker
	began  map[string]time.Time            // when input and output were created
	owned  func() map[int]*owner.Ownership // the ownerships published by the manager
	breaks func() uint64                   // of connections and consumers

	inputs *owner.InputWatch
	mapped string               // how the input gave keys to partitions at the start
	wrong  map[string]time.Time // since when, by fault
	behind map[string]bool      // reported lagging replicas
	many   map[string]bool      // NATS streams with reported consumers

	account *jetstream.AccountInfo // nil: not known
	nobody  uint64                 // messages without a partition, at the last warning
}

func newMonitor(w *owner.Worker, began map[string]time.Time, owned func() map[int]*owner.Ownership, breaks func() uint64) *streamMonitor {
	return &streamMonitor{
		worker: w, began: began, owned: owned, breaks: breaks, inputs: owner.NewInputWatch(w),
		wrong: map[string]time.Time{}, behind: map[string]bool{}, many: map[string]bool{},
	}
}

// watchStreams checks until ctx ends or data is lost, and returns the loss.
func (w *streamMonitor) watchStreams(ctx context.Context) error {
	w.mapped = store.Destination(w.worker.Server.In.Stream.CachedInfo().Config)
	try, cancel := w.worker.Server.Link.Attempt(ctx)
	w.account, _ = w.worker.Server.JS.AccountInfo(try)
	cancel()
	for store.Pause(ctx, w.worker.Lease) == nil {
		if err := w.checkStreams(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (w *streamMonitor) checkStreams(ctx context.Context) error {
	there := true
	var full crowd
	for _, s := range []jetstream.Stream{w.worker.Server.In.Stream, w.worker.Server.Out} {
		name, began := s.CachedInfo().Config.Name, w.began[s.CachedInfo().Config.Name]
		seq := owner.Furthest(w.owned()) // before the request: later messages have higher numbers
		info, err := w.requestInfo(ctx, s)
		gone := errors.Is(err, jetstream.ErrStreamNotFound)
		if w.faultLasts(name+" gone", gone, isClustered(s)) {
			if s == w.worker.Server.Out {
				return store.GoneOutput(w.worker.Job, w.worker.Server.In.Job)
			}
			return store.LostInput(w.worker.Server.In.Job)
		}
		if err != nil {
			there = false
			continue // unavailable for now: users of the stream retry
		}
		if !info.Created.Equal(began) {
			return fmt.Errorf("pipeline: NATS stream %s was deleted and created again %s, the stage started with the one created %s: restart the stage; its log names the partitions that can continue", name, wire.CreatedText(info.Created), wire.CreatedText(began))
		}
		if err := store.CheckDiscards(info.Config); err != nil {
			return err
		}
		w.checkReplicas(info)
		full = full.fullerOf(w.checkConsumers(info))
		if w.faultLasts(name+" empty", s == w.worker.Server.Out && w.worker.Server.Entered && info.State.Msgs == 0, isClustered(s)) {
			return store.EmptyOutput(w.worker.Job, w.worker.Server.In.Job)
		}
		if s != w.worker.Server.In.Stream || w.worker.Trusting {
			continue
		}
		w.reportUnmapped(name, info.State.Subjects)
		if now := store.Destination(info.Config); now != w.mapped {
			return fmt.Errorf("pipeline: NATS stream %s has the subject transform %s, it had %s when the stage started: the job's number of partitions was changed; nothing is lost: restart the stage", name, now, w.mapped)
		}
		if w.faultLasts("tail", info.State.LastSeq < seq, isClustered(s)) {
			return fmt.Errorf("pipeline: %s ends at message %d, but the stage has read message %d: the input lost its last messages; %s", name, info.State.LastSeq, seq, store.OtherHistory)
		}
		breaks := w.breaks() // before the ownerships: a new ownership is checked next time
		owned := w.owned()
		w.inputs.CheckSame(ctx, breaks, owned)
		w.inputs.LookBehind(ctx, info, owned)
		w.inputs.LookAhead(ctx, info, owned)
	}
	w.worker.Counters.Server.Consumers.Store(full.has)
	w.worker.Counters.Server.ConsumerLimit.Store(full.limit)
	if there { // nothing is created on a server without the job
		w.worker.Server.Auxiliary.LookAll(ctx)
	}
	return nil
}

// requestInfo requests the state of a NATS stream, for the input with the subjects of messages
// without a partition.
func (w *streamMonitor) requestInfo(ctx context.Context, s jetstream.Stream) (*jetstream.StreamInfo, error) {
	if in := w.worker.Server.In; s == in.Stream {
		var info *jetstream.StreamInfo
		stray := map[string]uint64{}
		for _, subject := range in.Pattern.Filters() {
			var err error
			if info, err = in.ReadInfo(ctx, jetstream.WithSubjectFilter(subject)); err != nil {
				return nil, err
			}
			maps.Copy(stray, info.State.Subjects)
		}
		info.State.Subjects = stray
		return info, nil
	}
	try, cancel := w.worker.Server.Link.Attempt(ctx)
	defer cancel()
	return s.Info(try)
}

// checkReplicas reports lagging replicas. A consumer on a lagging server reads old
// messages, and after a power loss of servers without a sync, messages never present on
// other servers; its heartbeats continue.
func (w *streamMonitor) checkReplicas(info *jetstream.StreamInfo) {
	if info.Cluster == nil {
		return
	}
	for _, r := range info.Cluster.Replicas {
		name := info.Config.Name
		what := name + " on " + r.Name
		behind := w.faultLasts(what, r.Offline || !r.Current, true)
		switch told := w.behind[what]; {
		case behind && !told:
			w.behind[what] = true
			w.worker.Log.Warn("a replica is not current: consumers on that server may read old messages; check that the server runs (docs/durability.md describes the repair)",
				"stream", name, "server", r.Name, "offline", r.Offline, "lag", r.Lag)
		case told && !behind:
			delete(w.behind, what)
			w.worker.Log.Info("replica is current again", "stream", name, "server", r.Name)
		}
	}
	w.worker.Counters.Server.Behind.Store(int64(len(w.behind)))
}

// crowd is how many consumers a NATS stream has, and may have.
type crowd struct{ has, limit int64 }

// fullerOf returns the stream with less room, in proportion.
func (c crowd) fullerOf(o crowd) crowd {
	if c.limit == 0 || o.has*c.limit > c.has*o.limit {
		return o
	}
	return c
}

// checkConsumers counts the consumers of a NATS stream, and warns once if few are left:
// partitions and readers would get none.
func (w *streamMonitor) checkConsumers(info *jetstream.StreamInfo) crowd {
	name := info.Config.Name
	c := crowd{int64(info.State.Consumers), int64(store.ConsumerLimit(info.Config, w.account))}
	many := float64(c.has) > store.ManyConsumers*float64(c.limit)
	if many && !w.many[name] {
		w.worker.Log.Warn("a NATS stream has almost reached its limit of consumers, and then partitions and readers cannot start: list the consumers (nats consumer report), remove unused consumers, or raise max_consumers",
			"stream", name, "consumers", c.has, "limit", c.limit)
	}
	w.many[name] = many
	return c
}

// reportUnmapped reports input messages without a partition. The server accepts "*" and
// ">" as tokens, but maps no such subject: it stores and acknowledges the message
// unmapped, and no partition's consumer receives the message.
func (w *streamMonitor) reportUnmapped(name string, subjects map[string]uint64) {
	n, which := uint64(0), ""
	for s, messages := range subjects {
		if strings.Contains(s+".", ".*.") || strings.HasSuffix(s, ".>") {
			n, which = n+messages, s
		}
	}
	if n > w.nobody {
		w.worker.Log.Warn("input messages belong to no partition and are never read: a key must not have a token * or >, which are wildcards; republish the messages with other keys", "stream", name, "messages", n, "subject", which)
	}
	w.nobody = n
}

// isClustered reports whether the leader of a NATS stream may change. A single server
// names itself as leader, in a cluster without a name.
func isClustered(s jetstream.Stream) bool {
	c := s.CachedInfo().Cluster
	return c != nil && c.Name != ""
}

// faultLasts reports whether a fault occurs for the second time in a row; in a cluster,
// whose new leader may give outdated answers, after staleGrace.
func (w *streamMonitor) faultLasts(what string, wrong, clustered bool) bool {
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
