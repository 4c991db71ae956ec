package store

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
)

// MaxModelFile is how many bytes a model may have in a job's registry.
const MaxModelFile = 256 << 20

// aboutKey is that of what is said about an object, in its metadata.
const aboutKey = "eusn-about"

// ErrNoModels is that of a job that has no registry of models: its workers are of
// a program that made none, or may not make one.
var ErrNoModels = errors.New("the job has no registry of models")

// Models is where a job keeps model files: a bucket of the server's object store.
type Models struct{ bucket }

// Object is what is known of an object without its content.
type Object struct {
	About  string // what its writer said about it
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

// FindModels opens a bucket that is there, or returns ErrNoModels.
func FindModels(ctx context.Context, js jetstream.JetStream, job string) (*Models, error) {
	b, err := findBucket(ctx, js, wire.ModelBucket(job))
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, fmt.Errorf("pipeline: job %q: %w", job, ErrNoModels)
	}
	if err != nil {
		return nil, err
	}
	return &Models{b}, nil
}

// Put stores an object, in the place of one of that name.
func (m *Models) Put(ctx context.Context, name, about string, b []byte) error {
	if len(b) > MaxModelFile {
		return fmt.Errorf("pipeline: %s: a model of %d bytes, want at most %d", m.Bucket, len(b), MaxModelFile)
	}
	ctx, cancel := context.WithTimeout(ctx, transferTime(uint64(len(b))))
	defer cancel()
	meta := jetstream.ObjectMeta{Name: name, Metadata: map[string]string{aboutKey: about}}
	err := m.put(ctx, meta, b)
	if errors.Is(err, jetstream.ErrBadObjectMeta) { // the client reads what is there first
		if err = m.stream.Purge(ctx, jetstream.WithPurgeSubject(m.entry(name))); err == nil {
			err = m.put(ctx, meta, b)
		}
	}
	if err != nil {
		return fmt.Errorf("pipeline: %s of %s: %w", name, m.Bucket, err)
	}
	return nil
}

// Get reads an object, and checks that its bytes are those that were stored.
// Lost says of an error that they are not there any more.
func (m *Models) Get(ctx context.Context, name string) ([]byte, Object, error) {
	b, info, err := m.get(ctx, name, MaxModelFile)
	if err != nil {
		return nil, Object{}, fmt.Errorf("pipeline: %s of %s: %w", name, m.Bucket, err)
	}
	return b, objectOf(info), nil
}

// Look is Get without the content.
func (m *Models) Look(ctx context.Context, name string) (Object, error) {
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
