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
	// larger snapshots are refused on reading: no partition's state is so large
	maxSnapshot = 8 << 30
	// uploadTimeout is the longest duration of an upload; sweeping relies on it.
	uploadTimeout = 5 * time.Minute
)

// Snapshots is the store of the states of a job's partitions: a bucket of the server's
// object store, and its NATS stream.
type Snapshots struct {
	bucket
	// suspects are uploads without an entry when last looked; see sweepChunks.
	suspects map[string]bool
	// Generation counts how often the bucket was lost during this run: objects stored
	// in an earlier generation are gone.
	Generation atomic.Uint64

	// see rowstore.go
	Link     *Link // nil if no connection is followed
	Job      string
	rows     jetstream.Stream
	rowJS    jetstream.JetStream
	Patience time.Duration
	// Mute reports that the store of rows has not answered for rowPatience: no caller
	// waits as long again before a probe is answered.
	Mute atomic.Bool
}

// OpenSnapshots makes or finds the job's bucket.
func OpenSnapshots(ctx context.Context, js jetstream.JetStream, job string, replicas int) (*Snapshots, error) {
	if err := makeBucket(ctx, js, wire.SnapshotBucket(job), replicas); err != nil {
		return nil, err
	}
	return FindSnapshots(ctx, js, job)
}

// FindSnapshots opens an existing bucket.
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

// Put stores a snapshot. Put gives up early, because the release of a partition waits
// for the result: a request during the election of the bucket's leader is never
// answered, and the next snapshot serves equally.
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

// Get reads a snapshot, and checks the bytes against the stored sha256.
func (s *Snapshots) Get(ctx context.Context, name string) ([]byte, error) {
	return s.GetRest(ctx, name, new(Download))
}

// GetRest is Get, continued at the end of an earlier attempt with the same d.
func (s *Snapshots) GetRest(ctx context.Context, name string, d *Download) ([]byte, error) {
	b, _, err := s.getObject(ctx, name, maxSnapshot, d, LostSnapshot)
	return b, err
}

// LostSnapshot reports whether a snapshot can never be read.
func LostSnapshot(err error) bool {
	return errors.Is(err, jetstream.ErrObjectNotFound) || errors.Is(err, jetstream.ErrDigestMismatch) || errors.Is(err, errChunks)
}

// Remove deletes a snapshot named by no record, with the snapshot's entry: the object
// store's own method leaves a permanent marker. A snapshot that cannot be deleted now
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

// SnapshotEntry is an entry of the bucket.
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
