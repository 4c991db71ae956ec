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

// Auxiliary are the NATS streams of a job besides its input and output: dead letters,
// state rows, snapshots, workers. No auxiliary stream decides a partition's position or
// owner. So an auxiliary stream deleted under a running stage is recreated with the
// last known configuration, and refilled as far as the stage has the data: snapshots
// are states in memory, and workers renew their leases.
type Auxiliary struct {
	js      jetstream.JetStream
	link    *Link // of js
	job     string
	snaps   *Snapshots
	spilled func() uint64 // rows stored by this run
	log     *slog.Logger

	names []string
	Mu    sync.Mutex
	Known map[string]*jetstream.StreamInfo // as last seen
	told  map[string]time.Time             // time of the last warning, by stream
	gone  map[string]time.Time             // when their absence was first seen
	rows  uint64                           // rows stored by this run at the last check
	full  uint64                           // dead letters dropped for newer ones, at the last warning
}

// OpenAuxiliary records the existing streams when the stage starts. carries:
// predictions of the job carry their features.
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

// LookAll checks all auxiliary streams.
func (b *Auxiliary) LookAll(ctx context.Context) {
	for _, name := range b.names {
		b.CheckStream(ctx, name)
	}
}

// settling is how long a NATS stream must be missing before it is recreated: the server
// (2.15.2) frees the name before it has removed the folder. A stream created in between
// can lose its folder, and accepts no message until the server restarts.
const settling = 500 * time.Millisecond

// CheckStream checks an auxiliary stream, and recreates the stream if missing, but not
// at the first check. After an error, a later check retries. CheckStream reports
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
	info := s.CachedInfo()
	if isEmptied(info, b.Known[name]) { // or an outdated answer: this request begins after both
		if info, err = s.Info(try); err != nil {
			return false
		}
	}
	delete(b.told, name)
	delete(b.gone, name)
	b.noteInfo(name, info)
	return false
}

// isEmptied reports whether a NATS stream has lost its last messages; see begun.go.
func isEmptied(info, was *jetstream.StreamInfo) bool {
	return info.Config.Replicas <= 1 && info.State.LastSeq < was.State.LastSeq
}

// noteInfo records the state of a NATS stream, and warns of lost data.
func (b *Auxiliary) noteInfo(name string, info *jetstream.StreamInfo) {
	was := b.Known[name]
	b.Known[name] = info
	if name == wire.DeadLetterStream(b.job) {
		b.noteDropped(info)
	}
	switch {
	case !info.Created.Equal(was.Created):
		b.log.Warn("a NATS stream of the job was deleted and created again: "+b.lossNote(name), "stream", name)
	case isEmptied(info, was):
		b.log.Warn("a NATS stream of the job has lost all its messages: "+b.lossNote(name), "stream", name)
	default:
		return
	}
	if name == wire.SnapshotStream(b.job) {
		b.snaps.Generation.Add(1)
	}
}

// noteDropped warns of dead letters dropped for newer ones, and repeats the warning
// when their number has doubled: the server drops them silently.
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

// errHolds prevents the recreation of a store of state rows: rows missing from an
// existing store are lost permanently, and stop their partitions.
var errHolds = errors.New("it held state rows when it was seen last, which only its backup brings back")

// restoreStream creates a NATS stream with the last known configuration. If another
// worker was first, restoreStream uses the other worker's stream.
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

// ownMetadata returns the metadata of a NATS stream without the server's additions.
func ownMetadata(cfg jetstream.StreamConfig) map[string]string {
	m := map[string]string{}
	maps.Copy(m, cfg.Metadata)
	maps.DeleteFunc(m, func(k, _ string) bool { return strings.HasPrefix(k, "_nats.") })
	return m
}

// missingNote lists the functions of a stage that fail without a NATS stream, and the
// remedy.
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

// lossNote lists the data lost with a recreated NATS stream.
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
