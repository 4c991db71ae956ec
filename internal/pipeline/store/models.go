package store

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// MaxModelFile is how many bytes a model may have in a job's registry.
const MaxModelFile = 256 << 20

// aboutKey is the key of an object's description in its metadata.
const aboutKey = "eusn-about"

// ErrNoModels reports a job without a registry of models: its workers' program created
// none, or lacks the right.
var ErrNoModels = errors.New("the job has no registry of models")

// Models is where a job keeps model files: a bucket of the server's object store.
type Models struct {
	bucket
	old time.Duration // oldPiece, but in tests
}

// Object describes an object without the content.
type Object struct {
	About  string // the writer's description
	Size   uint64
	Stored time.Time
}

// OpenModels makes or finds the bucket of a job's models.
func OpenModels(ctx context.Context, js jetstream.JetStream, job string, replicas int) (*Models, error) {
	if err := makeBucket(ctx, js, wire.ModelBucket(job), replicas); err != nil {
		return nil, err
	}
	return FindModels(ctx, js, job)
}

// FindModels opens an existing bucket, or returns ErrNoModels.
func FindModels(ctx context.Context, js jetstream.JetStream, job string) (*Models, error) {
	b, err := findBucket(ctx, js, wire.ModelBucket(job))
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, fmt.Errorf("pipeline: job %q: %w", job, ErrNoModels)
	}
	if err != nil {
		return nil, err
	}
	return &Models{b, oldPiece}, nil
}

// Put stores an object, and replaces an object with the same name. A failed Put removes
// the object's chunks, or a later Put does.
func (m *Models) Put(ctx context.Context, name, about string, b []byte) error {
	if len(b) > MaxModelFile {
		return fmt.Errorf("pipeline: %s: a model of %d bytes, want at most %d", m.Bucket, len(b), MaxModelFile)
	}
	ctx, cancel := context.WithTimeout(ctx, transferTime(uint64(len(b))))
	defer cancel()
	m.sweepUnnamed(ctx)
	meta := jetstream.ObjectMeta{Name: name, Metadata: map[string]string{aboutKey: about}}
	err := m.uploadModel(ctx, meta, b)
	if errors.Is(err, jetstream.ErrBadObjectMeta) { // the client first reads the existing object
		if err = m.stream.Purge(ctx, jetstream.WithPurgeSubject(m.entrySubject(name))); err == nil {
			err = m.uploadModel(ctx, meta, b)
		}
	}
	if err != nil {
		return fmt.Errorf("pipeline: %s of %s: %w", name, m.Bucket, err)
	}
	return nil
}

// uploadModel stores an object, and removes an incomplete object when ctx ends: the
// client removes the chunks while the client's own, longer context lasts.
func (m *Models) uploadModel(ctx context.Context, meta jetstream.ObjectMeta, b []byte) error {
	end, _ := ctx.Deadline() // Put has set a deadline
	longer, cancel := context.WithDeadline(context.WithoutCancel(ctx), end.Add(CommitTimeout))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.Canceled) { // otherwise longer ends at its own deadline
			time.AfterFunc(CommitTimeout, cancel)
		}
	})
	defer stop()
	meta.Opts = &jetstream.ObjectMetaOptions{ChunkSize: bucketChunk}
	_, err := m.objects.Put(longer, meta, whileOpen{ctx, &unhurried{bytes.NewReader(b)}})
	return err
}

// whileOpen reads until the context ends.
type whileOpen struct {
	ctx  context.Context
	from io.Reader
}

func (r whileOpen) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.from.Read(b)
}

// oldPiece is the age at which the upload of a chunk without an entry has certainly
// ended.
const oldPiece = 10 * time.Minute

// sweepUnnamed removes chunks of uploads that ended without an entry: of killed
// programs, or after a lost connection. After an error, the next Put retries.
func (m *Models) sweepUnnamed(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, CommitTimeout)
	defer cancel()
	info, err := m.stream.Info(ctx, jetstream.WithSubjectFilter(m.chunkSubject("*")))
	if err != nil || len(info.State.Subjects) == 0 {
		return
	}
	pieces := info.State.Subjects
	names, err := m.Names(ctx)
	if err != nil {
		return
	}
	for _, name := range names { // the client's own list waits for ever where an entry is damaged
		o, err := m.objects.GetInfo(ctx, name, jetstream.GetObjectInfoShowDeleted())
		if err != nil {
			return
		}
		delete(pieces, m.chunkSubject(o.NUID))
	}
	for subject := range pieces {
		last, err := m.stream.GetLastMsgForSubject(ctx, subject)
		if err == nil && info.TimeStamp.Sub(last.Time) > m.old { // both by the server's clock
			_ = m.stream.Purge(ctx, jetstream.WithPurgeSubject(subject))
		}
	}
}

// Get reads an object, and compares the bytes with the stored checksum. A missing name
// is an answer, and is not retried: the publisher of a model first checks whether it
// exists.
func (m *Models) Get(ctx context.Context, name string) ([]byte, Object, error) {
	b, info, err := m.getObject(ctx, name, MaxModelFile, new(Download), func(err error) bool {
		return LostSnapshot(err) && !errors.Is(err, jetstream.ErrObjectNotFound)
	})
	if err != nil {
		return nil, Object{}, fmt.Errorf("pipeline: %s of %s: %w", name, m.Bucket, err)
	}
	return b, objectOf(info), nil
}

// FindModel is Get without the content.
func (m *Models) FindModel(ctx context.Context, name string) (Object, error) {
	ctx, cancel := context.WithTimeout(ctx, CommitTimeout)
	defer cancel()
	info, err := m.objects.GetInfo(ctx, name)
	if err != nil {
		return Object{}, fmt.Errorf("pipeline: %s of %s: %w", name, m.Bucket, err)
	}
	return objectOf(info), nil
}

func objectOf(info *jetstream.ObjectInfo) Object {
	return Object{About: info.Metadata[aboutKey], Size: info.Size, Stored: info.ModTime}
}

// Names lists the objects in alphabetical order; some may have been deleted, and
// left a marker.
func (m *Models) Names(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, CommitTimeout)
	defer cancel()
	prefix := "$O." + m.Bucket + ".M."
	info, err := m.stream.Info(ctx, jetstream.WithSubjectFilter(prefix+">"))
	if err != nil {
		return nil, fmt.Errorf("pipeline: %s: %w", m.Bucket, err)
	}
	var names []string
	for _, subject := range slices.Sorted(maps.Keys(info.State.Subjects)) {
		if name, err := base64.URLEncoding.DecodeString(strings.TrimPrefix(subject, prefix)); err == nil {
			names = append(names, string(name))
		}
	}
	slices.Sort(names)
	return names, nil
}
