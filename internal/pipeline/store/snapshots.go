package store

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

const (
	// maxSnapshot is refused on reading: no partition's state is so large.
	maxSnapshot = 8 << 30
	// uploadTimeout is the longest that an upload may take; sweeping relies on
	// it.
	uploadTimeout = 5 * time.Minute
)

// Snapshots is where a job keeps its partitions' states: a bucket of the
// server's object store, and the NATS stream that it is.
type Snapshots struct {
	bucket
	// suspects are uploads without an entry when last looked; see sweepChunks.
	suspects map[string]bool
	// Generation counts how often the bucket was lost under this run: what was
	// stored in one before is not there any more.
	Generation atomic.Uint64

	// see rowstore.go
	Link     *Link // nil where nobody follows the connection
	Job      string
	rows     jetstream.Stream
	rowJS    jetstream.JetStream
	Patience time.Duration
	// Mute says that the store of rows has not answered for patience: nobody
	// waits for it so long again before it has answered a probe.
	Mute atomic.Bool
}

// OpenSnapshots makes or finds the job's bucket.
func OpenSnapshots(ctx context.Context, js jetstream.JetStream, job string, replicas int) (*Snapshots, error) {
	if err := makeBucket(ctx, js, wire.SnapshotBucket(job), replicas); err != nil {
		return nil, err
	}
	return FindSnapshots(ctx, js, job)
}

// FindSnapshots opens a bucket that is there, as it is.
func FindSnapshots(ctx context.Context, js jetstream.JetStream, job string) (*Snapshots, error) {
	b, err := findBucket(ctx, js, wire.SnapshotBucket(job))
	if err != nil {
		return nil, err
	}
	b.slots = make(chan struct{}, transfersAtOnce)
	s := &Snapshots{bucket: b}
	if err := s.openRows(ctx, js, job); err != nil {
		return nil, err
	}
	return s, nil
}

// Put stores a snapshot. It gives up early, for whoever releases a partition
// waits for it: a question that comes while the bucket has no leader is never
// answered, and the next snapshot serves as well.
func (s *Snapshots) Put(ctx context.Context, name string, b []byte) error {
	done, err := s.beginTransfer(ctx)
	if err != nil {
		return fmt.Errorf("pipeline: snapshot %s: %w", name, err)
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, min(uploadTimeout, transferTime(uint64(len(b)))))
	defer cancel()
	if err := s.putObject(ctx, jetstream.ObjectMeta{Name: name}, b); err != nil {
		return fmt.Errorf("pipeline: snapshot %s: %w", name, err)
	}
	return nil
}

// Get reads a snapshot, and checks it against its stored sha256.
func (s *Snapshots) Get(ctx context.Context, name string) ([]byte, error) {
	return s.GetRest(ctx, name, new(Download))
}

// GetRest is Get that continues where an attempt with the same d ended.
func (s *Snapshots) GetRest(ctx context.Context, name string, d *Download) ([]byte, error) {
	b, _, err := s.getObject(ctx, name, maxSnapshot, d, LostSnapshot)
	return b, err
}

// LostSnapshot reports whether a snapshot can never be read, whenever one asks.
func LostSnapshot(err error) bool {
	return errors.Is(err, jetstream.ErrObjectNotFound) || errors.Is(err, jetstream.ErrDigestMismatch) || errors.Is(err, errChunks)
}

// Remove deletes a snapshot that no record names any more, with its entry: the
// object store's own way leaves a marker for ever. What cannot be deleted now
// is swept later.
func (s *Snapshots) Remove(ctx context.Context, name string, log *slog.Logger) {
	info, err := s.objects.GetInfo(ctx, name)
	if err == nil {
		err = s.stream.Purge(ctx, jetstream.WithPurgeSubject(s.entrySubject(name)))
	}
	if err == nil {
		err = s.stream.Purge(ctx, jetstream.WithPurgeSubject(s.chunkSubject(info.NUID)))
	}
	if err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) {
		log.Debug("old snapshot not deleted", "name", name, "err", err)
	}
}

// SnapshotEntry is what the bucket has an entry of.
type SnapshotEntry struct {
	Name       string
	Epoch, Seq uint64
}

// Entries lists a partition's snapshots in the bucket, the latest input first.
// Some may have been deleted, and left a marker.
func (s *Snapshots) Entries(ctx context.Context, part int) (all []SnapshotEntry, err error) {
	prefix := "$O." + s.Bucket + ".M."
	info, err := s.stream.Info(ctx, jetstream.WithSubjectFilter(prefix+">"))
	if err != nil {
		return nil, fmt.Errorf("pipeline: %s: %w", s.Bucket, err)
	}
	for subject := range info.State.Subjects {
		name, err := base64.URLEncoding.DecodeString(strings.TrimPrefix(subject, prefix))
		if err != nil {
			continue
		}
		if p, epoch, seq, ok := wire.ParseSnapshotName(string(name)); ok && p == part {
			all = append(all, SnapshotEntry{string(name), epoch, seq})
		}
	}
	slices.SortFunc(all, func(a, b SnapshotEntry) int {
		return cmp.Or(cmp.Compare(b.Seq, a.Seq), cmp.Compare(b.Epoch, a.Epoch))
	})
	return all, nil
}
