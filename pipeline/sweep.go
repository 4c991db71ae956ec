package pipeline

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
)

// sweepEvery is how often uploads that nobody finished are looked for. It must
// exceed uploadTimeout.
const sweepEvery = 2 * uploadTimeout

// claimed is what the sweep must know of a partition this worker owns: the
// epoch of its claim and the snapshot it found then.
type claimed struct {
	epoch uint64
	found string
}

// sweep deletes what workers before us left behind: snapshots of an epoch
// before our claim's that are not the one it found, and, with pieces, what was
// stored of uploads that were never finished.
func (s *snapshots) sweep(ctx context.Context, ours map[int]claimed, pieces bool, log *slog.Logger) {
	all, err := s.store.List(ctx, jetstream.ListObjectsShowDeleted())
	if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
		log.Debug("snapshots not listed", "err", err)
		return
	}
	entries := map[string]bool{}
	for _, o := range all {
		entries[o.NUID] = true
		part, epoch, _, ok := wire.ParseSnapshotName(o.Name)
		if !ok {
			continue
		}
		if mine, ok := ours[part]; ok && epoch < mine.epoch && o.Name != mine.found {
			if o.Deleted { // a marker, as the object store leaves them
				_ = s.stream.Purge(ctx, jetstream.WithPurgeSubject(s.entry(o.Name))) // or the next time
				continue
			}
			s.remove(ctx, o.Name, log)
		}
	}
	if pieces {
		s.sweepChunks(ctx, entries, log)
	}
}

// sweepChunks deletes the pieces of uploads that have no entry now and had
// none when they were looked at before, at least sweepEvery ago: an upload
// still under way gets its entry, or gives up, within uploadTimeout. No clock
// but our own passing of time decides.
func (s *snapshots) sweepChunks(ctx context.Context, entries map[string]bool, log *slog.Logger) {
	info, err := s.stream.Info(ctx, jetstream.WithSubjectFilter(s.chunks("*")))
	if err != nil {
		log.Debug("snapshots' pieces not listed", "err", err)
		return
	}
	before := s.suspects
	s.suspects = map[string]bool{}
	for subject := range info.State.Subjects {
		id := strings.TrimPrefix(subject, s.chunks(""))
		switch {
		case entries[id]:
		case before[id]:
			if err := s.stream.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil {
				log.Debug("pieces of an unfinished snapshot not deleted", "upload", id, "err", err)
				s.suspects[id] = true
				continue
			}
			log.Info("pieces of an unfinished snapshot deleted", "upload", id)
		default:
			s.suspects[id] = true
		}
	}
}

// sweeper runs sweeps beside the manager, one at a time.
type sweeper struct {
	due    bool      // claims were made since the last sweep
	looked time.Time // when pieces were looked at last
	done   chan struct{}
}

// sweepOrphans begins a sweep if it is time: after claims, and now and then. Of
// a partition claimed lately nothing is swept yet, see retire.go.
func (m *manager) sweepOrphans(ctx context.Context) {
	s := &m.sweeper
	if s.done != nil {
		select {
		case <-s.done:
			s.done = nil
		default:
			return
		}
	}
	pieces := time.Since(s.looked) >= sweepEvery
	if !s.due && !pieces || len(m.tenures) == 0 {
		return
	}
	ours := map[int]claimed{}
	for p, t := range m.tenures {
		epoch := t.epoch.Load()
		if epoch == 0 {
			return // not yet claimed: later
		}
		if t.home.Load() == nowhere {
			continue // it was rebuilt without the snapshot it should have had: until one is stored, any may be needed once more
		}
		if !t.failed.Load() && time.Since(t.claimed) >= m.keeps() { // what was replaced before the claim has been kept long enough
			ours[p] = claimed{epoch, t.found}
		}
	}
	s.due = false
	if pieces {
		s.looked = time.Now()
	}
	done := make(chan struct{})
	s.done = done
	m.beside.Go(func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(ctx, sweepEvery/2)
		defer cancel()
		m.snaps.sweep(ctx, ours, pieces, m.log)
	})
}
