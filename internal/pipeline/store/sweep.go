package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Claim is a sweep's data on a partition of this worker: the epoch of its claim and the
// snapshot found at the claim.
type Claim struct {
	Epoch uint64
	Found string
}

// Sweep deletes the remains of earlier workers: snapshots with an epoch before this
// claim's, except the snapshot found, and, with pieces, the chunks of unfinished
// uploads.
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
			if o.Deleted { // a marker, as the object store leaves
				_ = s.stream.Purge(ctx, jetstream.WithPurgeSubject(s.entrySubject(o.Name))) // or the next time
				continue
			}
			s.Remove(ctx, o.Name, log)
		}
	}
	if pieces {
		s.sweepChunks(ctx, entries, log)
	}
}

// SweepUnused deletes the snapshots and rows of the partitions from first on, which a
// job no longer has. still is called when the whole list is known, before any deletion:
// if the number of partitions changes again, new objects come later, and are not in the
// list.
func (s *Snapshots) SweepUnused(ctx context.Context, first int, still func() error, log *slog.Logger) error {
	all, err := s.objects.List(ctx, jetstream.ListObjectsShowDeleted())
	if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
		return fmt.Errorf("pipeline: snapshots not listed: %w", err)
	}
	rows, err := s.rows.Info(ctx, jetstream.WithSubjectFilter(wire.AllRowSubjects(s.Job)))
	if err != nil {
		return fmt.Errorf("pipeline: state rows not listed: %w", err)
	}
	if err := still(); err != nil {
		return err
	}
	for _, o := range all {
		part, _, _, ok := wire.ParseSnapshotName(o.Name)
		switch {
		case !ok || part < first:
		case o.Deleted:
			_ = s.stream.Purge(ctx, jetstream.WithPurgeSubject(s.entrySubject(o.Name))) // or the next time
		default:
			s.Remove(ctx, o.Name, log)
		}
	}
	for subject := range rows.State.Subjects {
		if part, ok := wire.PartitionOfRow(subject); ok && part >= first {
			if err := s.rows.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil {
				return fmt.Errorf("pipeline: state rows of partition %d not deleted: %w", part, err)
			}
		}
	}
	return nil
}

// sweepChunks deletes the chunks of uploads without an entry, now and at the previous
// check, at least SweepEvery ago: a running upload gets an entry, or ends, within
// uploadTimeout. Only the local passing of time decides, no clock.
func (s *Snapshots) sweepChunks(ctx context.Context, entries map[string]bool, log *slog.Logger) {
	info, err := s.stream.Info(ctx, jetstream.WithSubjectFilter(s.chunkSubject("*")))
	if err != nil {
		log.Debug("snapshots' pieces not listed", "err", err)
		return
	}
	before := s.suspects
	s.suspects = map[string]bool{}
	for subject := range info.State.Subjects {
		id := strings.TrimPrefix(subject, s.chunkSubject(""))
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

// SweepEvery is the interval of checks for unfinished uploads. It must exceed
// uploadTimeout.
const SweepEvery = 2 * uploadTimeout
