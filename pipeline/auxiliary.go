package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
)

// auxiliary are the NATS streams that a job has beside its input and output:
// dead letters, state rows, snapshots, workers. None of them decides how far a
// partition has come or who has it. So one that is deleted under a running
// stage is created again, as it was when last seen, and what was in it is given
// again where the stage has it: snapshots are of states in memory, and workers
// renew their leases.
type auxiliary struct {
	*run
	names []string
	mu    sync.Mutex
	known map[string]*jetstream.StreamInfo // as last seen
	told  map[string]time.Time             // when their absence was last said
	rows  uint64                           // stored apart by this run, when it was last looked
	gone  uint64                           // dead letters that made room for newer ones, when last told
}

// openAuxiliary notes what there is when the stage starts.
func openAuxiliary(ctx context.Context, r *run) (*auxiliary, error) {
	b := &auxiliary{run: r, known: map[string]*jetstream.StreamInfo{}, told: map[string]time.Time{}}
	b.names = []string{wire.DeadLetterStream(r.cfg.Job), wire.RowStream(r.cfg.Job), wire.SnapshotStream(r.cfg.Job), wire.MemberStream(r.cfg.Job)}
	for _, name := range b.names {
		s, err := r.js.Stream(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("pipeline: NATS stream %s: %w", name, err)
		}
		b.known[name] = s.CachedInfo()
	}
	b.rows = r.counters.Spilled.Load()
	return b, nil
}

// look asks for one of them, and creates it again if it is gone. What cannot be
// asked for or made now is so at the next look.
func (b *auxiliary) look(ctx context.Context, name string) {
	try, cancel := b.link.Attempt(ctx)
	defer cancel()
	stored := b.counters.Spilled.Load() // before the question
	s, err := b.js.Stream(try, name)
	b.mu.Lock()
	defer b.mu.Unlock()
	gone := errors.Is(err, jetstream.ErrStreamNotFound)
	if gone {
		s, err = b.restore(try, name)
	}
	switch {
	case err == nil:
	case gone && ctx.Err() == nil && time.Since(b.told[name]) >= toldEvery:
		b.told[name] = time.Now()
		b.log.Error("a NATS stream of the job is gone and is not created again: "+b.lacks(name), "stream", name, "err", err)
		fallthrough
	default:
		return
	}
	if name == wire.RowStream(b.cfg.Job) {
		b.rows = stored
	}
	info := s.CachedInfo()
	if name == wire.DeadLetterStream(b.cfg.Job) {
		b.dropped(info)
	}
	anew := !info.Created.Equal(b.known[name].Created)
	b.known[name] = info
	delete(b.told, name)
	if !anew {
		return
	}
	b.log.Warn("a NATS stream of the job was deleted and created again: "+b.lost(name), "stream", name)
	if name == wire.SnapshotStream(b.cfg.Job) {
		b.snaps.Generation.Add(1)
	}
}

// dropped tells of dead letters that made room for newer ones, again when there
// are twice as many: the server drops them in silence.
func (b *auxiliary) dropped(info *jetstream.StreamInfo) {
	if most := info.Config.MaxMsgs; most <= 0 || info.State.Msgs < uint64(most) {
		return
	}
	if gone := info.State.FirstSeq - 1; gone > 0 && gone >= 2*b.gone {
		b.gone = gone
		b.log.Warn("the oldest dead letters are dropped for newer ones: look why so many messages cannot be used; the input has their originals while it keeps them",
			"stream", info.Config.Name, "dropped", gone, "kept", info.State.Msgs)
	}
}

// lastLookTime is how long whoever gives a partition up waits for the answer.
const lastLookTime = time.Second

// checkSnapshots asks for the snapshots before a partition is given up: the release
// names the last one, and takes another only where that is lost.
func (t *ownership) checkSnapshots() {
	if t.failed.Load() || !t.connected() {
		return
	}
	ctx, cancel := context.WithTimeout(t.shard.last, lastLookTime)
	defer cancel()
	t.auxiliary.look(ctx, wire.SnapshotStream(t.cfg.Job))
}

// errHolds keeps a store of state rows from being created again: rows that are not
// found in a store that is there are lost for good, and stop their partitions.
var errHolds = errors.New("it held state rows when it was seen last, which only its backup brings back")

// restore makes a NATS stream as it was when last seen. Where another worker
// was first, that one's stands.
func (b *auxiliary) restore(ctx context.Context, name string) (jetstream.Stream, error) {
	cfg := b.known[name].Config
	if name == wire.RowStream(b.cfg.Job) {
		if b.known[name].State.Msgs > 0 || b.counters.Spilled.Load() != b.rows {
			return nil, errHolds
		}
		cfg.FirstSeq = firstRow()
	}
	cfg.Sealed, cfg.Metadata = false, maps.Clone(cfg.Metadata)
	maps.DeleteFunc(cfg.Metadata, func(k, _ string) bool { return strings.HasPrefix(k, "_nats.") }) // the server's own
	return createStream(ctx, b.js, cfg)
}

// lacks says what a stage cannot do without a NATS stream, and what helps.
func (b *auxiliary) lacks(name string) string {
	switch name {
	case wire.DeadLetterStream(b.cfg.Job):
		return "a partition that has a dead letter waits for it: restore it, or let the stage make NATS streams"
	case wire.RowStream(b.cfg.Job):
		return "a partition that needs it waits for it: restore it; without a backup delete nothing more and restart a worker, which creates it again: sequences whose rows it held are lost, and stop their partitions when they are heard"
	case wire.SnapshotStream(b.cfg.Job):
		return "no state is stored, and a worker that ends now leaves partitions that only an input that begins at message 1 brings back: let the stage make NATS streams, or start a worker that may"
	}
	return "this worker goes on with its partitions, nobody takes them over: let the stage make NATS streams, or start a worker that may"
}

// lost says what went with a NATS stream that was created again.
func (b *auxiliary) lost(name string) string {
	switch name {
	case wire.DeadLetterStream(b.cfg.Job):
		return "the dead letters in it are lost, new ones go on"
	case wire.RowStream(b.cfg.Job):
		return "partitions whose state rows it held stop when they are needed"
	case wire.SnapshotStream(b.cfg.Job):
		return "every partition stores its state once more"
	}
	return "workers enter themselves again"
}
