package store

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// bucketChunk: the object store's default of 128 KiB is several times
	// slower to read.
	bucketChunk = 1 << 20
	// slowestStore, bytes per second, bounds how long reading and writing may
	// take.
	slowestStore = 10 << 20
)

// bucket is a bucket of the server's object store, and the NATS stream that it
// is.
type bucket struct {
	objects jetstream.ObjectStore
	stream  jetstream.Stream
	Bucket  string
}

// makeBucket makes a bucket, where there is none. Its reads go to the leader: a
// replica that lags may not know yet what was stored.
func makeBucket(ctx context.Context, js jetstream.JetStream, name string, replicas int) error {
	_, err := js.ObjectStore(ctx, name)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		_, err = js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: name, Storage: jetstream.FileStorage, Replicas: replicas})
		if errors.Is(err, jetstream.ErrBucketExists) { // another worker was first
			err = nil
		}
	}
	var stream jetstream.Stream
	if err == nil {
		stream, err = js.Stream(ctx, bucketStream(name))
	}
	if err == nil && stream.CachedInfo().Config.AllowDirect {
		cfg := stream.CachedInfo().Config
		cfg.AllowDirect = false
		_, err = js.UpdateStream(ctx, cfg)
	}
	if err != nil {
		return fmt.Errorf("pipeline: object store %s: %w", name, err)
	}
	return nil
}

// findBucket opens a bucket that is there, as it is.
func findBucket(ctx context.Context, js jetstream.JetStream, name string) (bucket, error) {
	objects, err := js.ObjectStore(ctx, name)
	if err != nil {
		return bucket{}, fmt.Errorf("pipeline: object store %s: %w", name, err)
	}
	stream, err := js.Stream(ctx, bucketStream(name))
	if err != nil {
		return bucket{}, fmt.Errorf("pipeline: object store %s: %w", name, err)
	}
	return bucket{objects, stream, name}, nil
}

func bucketStream(bucket string) string { return "OBJ_" + bucket }

// Subjects of the bucket, by the object store's format (ADR-20).
func (s *bucket) chunks(id string) string { return "$O." + s.Bucket + ".C." + id }
func (s *bucket) entry(name string) string {
	return "$O." + s.Bucket + ".M." + base64.URLEncoding.EncodeToString([]byte(name))
}

// put stores an object.
func (s *bucket) put(ctx context.Context, meta jetstream.ObjectMeta, b []byte) error {
	meta.Opts = &jetstream.ObjectMetaOptions{ChunkSize: bucketChunk}
	_, err := s.objects.Put(ctx, meta, &unhurried{bytes.NewReader(b)})
	return err
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

// errChunks is an object some of whose pieces are gone.
var errChunks = errors.New("pieces of it are missing")

// get reads an object of at most so many bytes. What seems lost in a cluster is
// asked for again during StaleGrace: its pieces come from any server, and one
// that lags hands out too few of them. lost says which errors mean that. An object
// that was stored anew while it was read, whose old pieces are gone therefore, is
// read again, too.
func (s *bucket) get(ctx context.Context, name string, most int64, lost func(error) bool) ([]byte, *jetstream.ObjectInfo, error) {
	late := time.Now().Add(StaleGrace)
	for {
		b, info, err := s.read(ctx, name, most)
		if err == nil || time.Now().After(late) || !s.storedAnew(ctx, name, info) && !(lost(err) && s.replicated()) {
			return b, info, err
		}
		if err := Pause(ctx, RetryWait); err != nil {
			return nil, nil, err
		}
	}
}

// storedAnew reports whether an object is another one than the one of that entry, nil
// for none.
func (s *bucket) storedAnew(ctx context.Context, name string, was *jetstream.ObjectInfo) bool {
	if was == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, CommitTimeout)
	defer cancel()
	is, err := s.objects.GetInfo(ctx, name)
	return err == nil && is.NUID != was.NUID
}

// read reads an object, which the client checks against its stored sha256. With an
// error it returns the entry, where it has found one.
func (s *bucket) read(ctx context.Context, name string, most int64) ([]byte, *jetstream.ObjectInfo, error) {
	try, cancel := context.WithTimeout(ctx, CommitTimeout)
	defer cancel()
	info, err := s.objects.GetInfo(try, name)
	if err != nil {
		return nil, nil, err
	}
	if info.Size > uint64(most) {
		return nil, info, fmt.Errorf("it has %d bytes, want at most %d", info.Size, most)
	}
	// A reader of pieces that are not there would wait for them.
	switch n, err := s.count(try, s.chunks(info.NUID)); {
	case err != nil: // says nothing of the pieces
		return nil, info, err
	case n < uint64(info.Chunks) || n == 0 && info.Size > 0:
		return nil, info, fmt.Errorf("%w: %d of %d are there", errChunks, n, info.Chunks)
	}
	all, cancel := context.WithTimeout(ctx, transferTime(info.Size))
	defer cancel()
	res, err := s.objects.Get(all, name)
	if err != nil {
		return nil, info, err
	}
	defer res.Close()
	b := bytes.NewBuffer(make([]byte, 0, min(info.Size, 1<<30)+bytes.MinRead))
	if _, err = b.ReadFrom(io.LimitReader(res, most+1)); err == nil && int64(b.Len()) > most {
		err = fmt.Errorf("it has more than %d bytes", most)
	}
	return b.Bytes(), info, err
}

// transferTime is how long an object of so many bytes may take.
func transferTime(bytes uint64) time.Duration {
	return CommitTimeout + time.Duration(bytes/slowestStore)*time.Second
}

// count is how many messages the leader has on a subject.
func (s *bucket) count(ctx context.Context, subject string) (uint64, error) {
	info, err := s.stream.Info(ctx, jetstream.WithSubjectFilter(subject))
	if err != nil {
		return 0, err
	}
	return info.State.Subjects[subject], nil
}

// replicated reports whether the bucket has several copies, whose leader may
// change.
func (s *bucket) replicated() bool { return s.stream.CachedInfo().Config.Replicas > 1 }
