package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// snapshotChunk: the object store's default of 128 KiB is several times
	// slower to read.
	snapshotChunk = 1 << 20
	// maxSnapshot is refused on reading: no partition's state is so large.
	maxSnapshot = 8 << 30
)

// snapshots is where a job keeps its partitions' states.
type snapshots struct {
	store  jetstream.ObjectStore
	bucket string
}

// openSnapshots makes or finds the job's bucket.
func openSnapshots(ctx context.Context, js jetstream.JetStream, c Config) (*snapshots, error) {
	name := snapshotBucket(c.Job)
	store, err := js.ObjectStore(ctx, name)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		store, err = js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: name, Storage: jetstream.FileStorage, Replicas: c.Replicas})
		if errors.Is(err, jetstream.ErrBucketExists) { // another worker was first
			store, err = js.ObjectStore(ctx, name)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("pipeline: object store %s: %w", name, err)
	}
	return &snapshots{store, name}, nil
}

// snapshotName is unique: a partition has one owner per epoch, who takes one
// snapshot per input message at most.
func snapshotName(part int, epoch, inSeq uint64) string {
	return fmt.Sprintf("p%d.e%d.%d", part, epoch, inSeq)
}

// parseSnapshotName takes a name apart; ok is false for what is not ours.
func parseSnapshotName(name string) (part int, epoch uint64, ok bool) {
	parts := strings.Split(name, ".")
	if len(parts) != 3 || !strings.HasPrefix(parts[0], "p") || !strings.HasPrefix(parts[1], "e") {
		return 0, 0, false
	}
	part, err1 := strconv.Atoi(parts[0][1:])
	epoch, err2 := strconv.ParseUint(parts[1][1:], 10, 64)
	return part, epoch, err1 == nil && err2 == nil
}

func (s *snapshots) put(ctx context.Context, name string, b []byte) error {
	_, err := s.store.Put(ctx, jetstream.ObjectMeta{Name: name, Opts: &jetstream.ObjectMetaOptions{ChunkSize: snapshotChunk}}, &unhurried{bytes.NewReader(b)})
	if err != nil {
		return fmt.Errorf("pipeline: snapshot %s: %w", name, err)
	}
	return nil
}

// unhurried rests before the end: Put starts a goroutine with its first chunk,
// and nats.go 1.55.0 leaves it behind for ever if Put returns before that
// goroutine has run.
type unhurried struct{ *bytes.Reader }

func (r *unhurried) Read(b []byte) (int, error) {
	if r.Len() == 0 {
		time.Sleep(time.Millisecond)
	}
	return r.Reader.Read(b)
}

// get reads a snapshot, which the client checks against its stored sha256.
func (s *snapshots) get(ctx context.Context, name string) ([]byte, error) {
	res, err := s.store.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	defer res.Close()
	info, err := res.Info()
	if err != nil {
		return nil, err
	}
	if info.Size > maxSnapshot {
		return nil, fmt.Errorf("it has %d bytes, want at most %d", info.Size, int64(maxSnapshot))
	}
	return io.ReadAll(res)
}

// lost reports whether a snapshot can never be read, whenever one asks.
func lostSnapshot(err error) bool {
	return errors.Is(err, jetstream.ErrObjectNotFound) || errors.Is(err, jetstream.ErrDigestMismatch)
}

// remove deletes a snapshot that no record names any more. What cannot be
// deleted now is swept later.
func (s *snapshots) remove(ctx context.Context, name string, log *slog.Logger) {
	if err := s.store.Delete(ctx, name); err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) {
		log.Debug("old snapshot not deleted", "name", name, "err", err)
	}
}

// sweep deletes snapshots that workers before us left behind: those of an
// epoch before ours that are not the one our claim found. kept says both for
// a partition; ok is false where it is not ours.
func (s *snapshots) sweep(ctx context.Context, kept func(part int) (epoch uint64, name string, ok bool), log *slog.Logger) {
	all, err := s.store.List(ctx)
	if err != nil {
		if !errors.Is(err, jetstream.ErrNoObjectsFound) {
			log.Debug("snapshots not listed", "err", err)
		}
		return
	}
	for _, o := range all {
		part, epoch, ok := parseSnapshotName(o.Name)
		if !ok {
			continue
		}
		if mine, name, ok := kept(part); ok && epoch < mine && o.Name != name {
			s.remove(ctx, o.Name, log)
		}
	}
}
