package store

import (
	"bytes"
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

	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
)

const (
	// snapshotChunk: the object store's default of 128 KiB is several times
	// slower to read.
	snapshotChunk = 1 << 20
	// maxSnapshot is refused on reading: no partition's state is so large.
	maxSnapshot = 8 << 30
	// slowestStore, bytes per second, bounds how long reading and writing may
	// take.
	slowestStore = 10 << 20
	// uploadTimeout is the longest that an upload may take; sweeping relies on
	// it.
	uploadTimeout = 5 * time.Minute
)

// Snapshots is where a job keeps its partitions' states: a bucket of the
// server's object store, and the NATS stream that it is.
type Snapshots struct {
	objects jetstream.ObjectStore
	stream  jetstream.Stream
	Bucket  string
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

// OpenSnapshots makes or finds the job's bucket. Its reads go to the leader: a
// replica that lags may not know yet what was stored, and a state that seems
// lost stops a partition.
func OpenSnapshots(ctx context.Context, js jetstream.JetStream, job string, replicas int) (*Snapshots, error) {
	name := wire.SnapshotBucket(job)
	_, err := js.ObjectStore(ctx, name)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		_, err = js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: name, Storage: jetstream.FileStorage, Replicas: replicas})
		if errors.Is(err, jetstream.ErrBucketExists) { // another worker was first
			err = nil
		}
	}
	var stream jetstream.Stream
	if err == nil {
		stream, err = js.Stream(ctx, wire.SnapshotStream(job))
	}
	if err == nil && stream.CachedInfo().Config.AllowDirect {
		cfg := stream.CachedInfo().Config
		cfg.AllowDirect = false
		_, err = js.UpdateStream(ctx, cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("pipeline: object store %s: %w", name, err)
	}
	return FindSnapshots(ctx, js, job)
}

// FindSnapshots opens a bucket that is there, as it is.
func FindSnapshots(ctx context.Context, js jetstream.JetStream, job string) (*Snapshots, error) {
	name := wire.SnapshotBucket(job)
	store, err := js.ObjectStore(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("pipeline: object store %s: %w", name, err)
	}
	stream, err := js.Stream(ctx, wire.SnapshotStream(job))
	if err != nil {
		return nil, fmt.Errorf("pipeline: object store %s: %w", name, err)
	}
	s := &Snapshots{objects: store, stream: stream, Bucket: name}
	if err := s.openRows(ctx, js, job); err != nil {
		return nil, err
	}
	return s, nil
}

// Subjects of the bucket, by the object store's format (ADR-20).
func (s *Snapshots) chunks(id string) string { return "$O." + s.Bucket + ".C." + id }
func (s *Snapshots) entry(name string) string {
	return "$O." + s.Bucket + ".M." + base64.URLEncoding.EncodeToString([]byte(name))
}

// Put stores a snapshot. It gives up early, for whoever releases a partition
// waits for it: a question that comes while the bucket has no leader is never
// answered, and the next snapshot serves as well.
func (s *Snapshots) Put(ctx context.Context, name string, b []byte) error {
	ctx, cancel := context.WithTimeout(ctx, min(uploadTimeout, transferTime(uint64(len(b)))))
	defer cancel()
	_, err := s.objects.Put(ctx, jetstream.ObjectMeta{Name: name, Opts: &jetstream.ObjectMetaOptions{ChunkSize: snapshotChunk}}, &unhurried{bytes.NewReader(b)})
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

// errChunks is a snapshot some of whose pieces are gone.
var errChunks = errors.New("pieces of it are missing")

// Get reads a snapshot. What seems lost in a cluster is asked for again during
// staleGrace: its pieces come from any server, and one that lags hands out too
// few of them.
func (s *Snapshots) Get(ctx context.Context, name string) ([]byte, error) {
	late := time.Now().Add(StaleGrace)
	for {
		b, err := s.read(ctx, name)
		if err == nil || !LostSnapshot(err) || !s.replicated() || time.Now().After(late) {
			return b, err
		}
		if err := Pause(ctx, RetryWait); err != nil {
			return nil, err
		}
	}
}

// read reads a snapshot, which the client checks against its stored sha256.
func (s *Snapshots) read(ctx context.Context, name string) ([]byte, error) {
	try, cancel := context.WithTimeout(ctx, CommitTimeout)
	defer cancel()
	info, err := s.objects.GetInfo(try, name)
	if err != nil {
		return nil, err
	}
	if info.Size > maxSnapshot {
		return nil, fmt.Errorf("it has %d bytes, want at most %d", info.Size, int64(maxSnapshot))
	}
	// A reader of pieces that are not there would wait for them.
	switch n, err := s.count(try, s.chunks(info.NUID)); {
	case err != nil: // says nothing of the pieces
		return nil, err
	case n < uint64(info.Chunks):
		return nil, fmt.Errorf("%w: %d of %d are there", errChunks, n, info.Chunks)
	}
	all, cancel := context.WithTimeout(ctx, transferTime(info.Size))
	defer cancel()
	res, err := s.objects.Get(all, name)
	if err != nil {
		return nil, err
	}
	defer res.Close()
	b := bytes.NewBuffer(make([]byte, 0, min(info.Size, 1<<30)+bytes.MinRead))
	_, err = b.ReadFrom(res)
	return b.Bytes(), err
}

// Beginning is the first piece of a snapshot; nil where there is no such
// snapshot, or its pieces are gone.
func (s *Snapshots) Beginning(ctx context.Context, name string) ([]byte, error) {
	info, err := s.objects.GetInfo(ctx, name)
	if LostSnapshot(err) {
		return nil, nil
	}
	var first *jetstream.RawStreamMsg
	if err == nil {
		first, err = s.stream.GetMsg(ctx, 1, jetstream.WithGetMsgSubject(s.chunks(info.NUID)))
	}
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("pipeline: snapshot %s: %w", name, err)
	}
	return first.Data, nil
}

// transferTime is how long a snapshot of so many bytes may take.
func transferTime(bytes uint64) time.Duration {
	return CommitTimeout + time.Duration(bytes/slowestStore)*time.Second
}

// count is how many messages the leader has on a subject.
func (s *Snapshots) count(ctx context.Context, subject string) (uint64, error) {
	info, err := s.stream.Info(ctx, jetstream.WithSubjectFilter(subject))
	if err != nil {
		return 0, err
	}
	return info.State.Subjects[subject], nil
}

// replicated reports whether the bucket has several copies, whose leader may
// change.
func (s *Snapshots) replicated() bool { return s.stream.CachedInfo().Config.Replicas > 1 }

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
		err = s.stream.Purge(ctx, jetstream.WithPurgeSubject(s.entry(name)))
	}
	if err == nil {
		err = s.stream.Purge(ctx, jetstream.WithPurgeSubject(s.chunks(info.NUID)))
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
