package store

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
)

// Claim is what the sweep must know of a partition this worker owns: the
// epoch of its claim and the snapshot it found then.
type Claim struct {
	Epoch uint64
	Found string
}

// Sweep deletes what workers before us left behind: snapshots of an epoch
// before our claim's that are not the one it found, and, with pieces, what was
// stored of uploads that were never finished.
func (s *Snapshots) Sweep(ctx context.Context, ours map[int]Claim, pieces bool, log *slog.Logger) {
	all, err := s.objects.List(ctx, jetstream.ListObjectsShowDeleted())
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
		if mine, ok := ours[part]; ok && epoch < mine.Epoch && o.Name != mine.Found {
			if o.Deleted { // a marker, as the object store leaves them
				_ = s.stream.Purge(ctx, jetstream.WithPurgeSubject(s.entry(o.Name))) // or the next time
				continue
			}
			s.Remove(ctx, o.Name, log)
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
func (s *Snapshots) sweepChunks(ctx context.Context, entries map[string]bool, log *slog.Logger) {
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

// SweepEvery is how often uploads that nobody finished are looked for. It must
// exceed uploadTimeout.
const SweepEvery = 2 * uploadTimeout
