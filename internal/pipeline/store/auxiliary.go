package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Auxiliary are the NATS streams that a job has beside its input and output:
// dead letters, state rows, snapshots, workers. None of them decides how far a
// partition has come or who has it. So one that is deleted under a running
// stage is created again, as it was when last seen, and what was in it is given
// again where the stage has it: snapshots are of states in memory, and workers
// renew their leases.
type Auxiliary struct {
	js      jetstream.JetStream
	link    *Link // of js
	job     string
	snaps   *Snapshots
	spilled func() uint64 // rows that this run has stored apart
	log     *slog.Logger

	names []string
	Mu    sync.Mutex
	Known map[string]*jetstream.StreamInfo // as last seen
	told  map[string]time.Time             // when their absence was last said
	gone  map[string]time.Time             // when their absence was first seen
	rows  uint64                           // stored apart by this run, when it was last looked
	full  uint64                           // dead letters that made room for newer ones, when last told
}

// OpenAuxiliary notes what there is when the stage starts. carries: predictions of the
// job carry their features.
func OpenAuxiliary(ctx context.Context, js jetstream.JetStream, link *Link, job string, snaps *Snapshots, carries bool, spilled func() uint64, log *slog.Logger) (*Auxiliary, error) {
	b := &Auxiliary{
		js: js, link: link, job: job, snaps: snaps, spilled: spilled, log: log,
		names: []string{wire.DeadLetterStream(job), wire.RowStream(job), wire.SnapshotStream(job), wire.MemberStream(job)},
		Known: map[string]*jetstream.StreamInfo{}, told: map[string]time.Time{}, gone: map[string]time.Time{},
	}
	if carries {
		b.names = append(b.names, wire.FeatureStream(job))
	}
	for _, name := range b.names {
		s, err := js.Stream(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("pipeline: NATS stream %s: %w", name, err)
		}
		b.Known[name] = s.CachedInfo()
	}
	b.rows = spilled()
	return b, nil
}

// LookAll looks at each of them.
func (b *Auxiliary) LookAll(ctx context.Context) {
	for _, name := range b.names {
		b.CheckStream(ctx, name)
	}
}

// settling is how long a NATS stream must be gone before it is created again: the
// server (2.15.2) forgets its name before it has removed its folder. A stream that is
// created in between can lose its folder, and takes no message until the server
// starts again.
const settling = 500 * time.Millisecond

// CheckStream asks for one of them, and creates it again if it is gone, though not at the
// first look. What cannot be asked for or made now is so at a later look. It reports
// whether the stream is missing.
func (b *Auxiliary) CheckStream(ctx context.Context, name string) (missing bool) {
	try, cancel := b.link.Attempt(ctx)
	defer cancel()
	stored := b.spilled() // before the question
	s, err := b.js.Stream(try, name)
	b.Mu.Lock()
	defer b.Mu.Unlock()
	gone := errors.Is(err, jetstream.ErrStreamNotFound)
	if gone {
		if _, seen := b.gone[name]; !seen {
			b.gone[name] = time.Now()
		}
		if time.Since(b.gone[name]) < settling {
			return true
		}
		s, err = b.restoreStream(try, name)
	}
	switch {
	case err == nil:
	case gone && ctx.Err() == nil && time.Since(b.told[name]) >= ToldEvery:
		b.told[name] = time.Now()
		b.log.Error("a NATS stream of the job was deleted and is not created again: "+b.missingNote(name), "stream", name, "err", err)
		fallthrough
	default:
		return gone
	}
	if name == wire.RowStream(b.job) {
		b.rows = stored
	}
	info, was := s.CachedInfo(), b.Known[name]
	emptied := func() bool { return info.Config.Replicas <= 1 && info.State.LastSeq < was.State.LastSeq } // see begun.go
	if emptied() {                                                                                        // or an answer that a later one has overtaken: this question begins after both
		if info, err = s.Info(try); err != nil {
			return false
		}
	}
	if name == wire.DeadLetterStream(b.job) {
		b.noteDropped(info)
	}
	anew := !info.Created.Equal(was.Created) || emptied()
	b.Known[name] = info
	delete(b.told, name)
	delete(b.gone, name)
	if !anew {
		return false
	}
	if info.Created.Equal(was.Created) {
		b.log.Warn("a NATS stream of the job has lost all its messages: "+b.lossNote(name), "stream", name)
	} else {
		b.log.Warn("a NATS stream of the job was deleted and created again: "+b.lossNote(name), "stream", name)
	}
	if name == wire.SnapshotStream(b.job) {
		b.snaps.Generation.Add(1)
	}
	return false
}

// noteDropped tells of dead letters that made room for newer ones, again when there
// are twice as many: the server drops them in silence.
func (b *Auxiliary) noteDropped(info *jetstream.StreamInfo) {
	if most := info.Config.MaxMsgs; most <= 0 || info.State.Msgs < uint64(most) {
		return
	}
	if gone := info.State.FirstSeq - 1; gone > 0 && gone >= 2*b.full {
		b.full = gone
		b.log.Warn("the oldest dead letters are dropped to make space for newer ones: find out why so many messages cannot be used; the original messages are in the input as long as it keeps them",
			"stream", info.Config.Name, "dropped", gone, "kept", info.State.Msgs)
	}
}

// errHolds keeps a store of state rows from being created again: rows that are not
// found in a store that is there are lost for good, and stop their partitions.
var errHolds = errors.New("it held state rows when it was seen last, which only its backup brings back")

// restoreStream makes a NATS stream as it was when last seen. Where another worker
// was first, that one's stands.
func (b *Auxiliary) restoreStream(ctx context.Context, name string) (jetstream.Stream, error) {
	cfg := b.Known[name].Config
	if name == wire.RowStream(b.job) {
		if b.Known[name].State.Msgs > 0 || b.spilled() != b.rows {
			return nil, errHolds
		}
		cfg.FirstSeq = firstRow()
	}
	cfg.Sealed, cfg.Metadata = false, ownMetadata(cfg)
	return createStream(ctx, b.js, cfg)
}

// ownMetadata is the metadata of a NATS stream without what the server adds.
func ownMetadata(cfg jetstream.StreamConfig) map[string]string {
	m := map[string]string{}
	maps.Copy(m, cfg.Metadata)
	maps.DeleteFunc(m, func(k, _ string) bool { return strings.HasPrefix(k, "_nats.") })
	return m
}

// missingNote says what a stage cannot do without a NATS stream, and what helps.
func (b *Auxiliary) missingNote(name string) string {
	switch name {
	case wire.DeadLetterStream(b.job):
		return "a partition that has a dead letter waits: restore the NATS stream, or allow the stage to create NATS streams"
	case wire.RowStream(b.job):
		return "a partition that needs it waits: restore it from a backup. Without a backup delete nothing more, and restart a worker: it creates the NATS stream, empty. The states that were stored there are lost; a partition that needs one of them stops"
	case wire.FeatureStream(b.job):
		return "a partition that has a prediction which carries its features waits: restore the NATS stream, allow the stage to create NATS streams, or set output.features_one_in to 0"
	case wire.SnapshotStream(b.job):
		return "no snapshots are stored. If a worker ends now, its partitions can continue only if the input still has message 1: allow the stage to create NATS streams, or start a worker that may"
	}
	return "this worker continues with its partitions, but no other worker can take them over: allow the stage to create NATS streams, or start a worker that may"
}

// lossNote says what went with a NATS stream that was created again.
func (b *Auxiliary) lossNote(name string) string {
	switch name {
	case wire.DeadLetterStream(b.job):
		return "the dead letters in it are lost; new ones are stored"
	case wire.RowStream(b.job):
		return "the states that were stored there are lost; a partition that needs one of them stops"
	case wire.FeatureStream(b.job):
		return "the features in it are lost; learn computes those whose samples the input still has"
	case wire.SnapshotStream(b.job):
		return "every partition stores its state again"
	}
	return "the workers register again"
}
