package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
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
	// transfersAtOnce limits the snapshots stored, and the chunks read, by a worker at
	// the same time: a server with little bandwidth has no more to do in parallel, for
	// any number of partitions. piecesUnderWay limits the chunks of uploads that wait
	// for their answers.
	transfersAtOnce = 4
	piecesUnderWay  = 8
)

// bucket is a bucket of the server's object store, with the bucket's NATS stream.
type bucket struct {
	objects jetstream.ObjectStore
	stream  jetstream.Stream
	Bucket  string
	upload  jetstream.JetStream // of objects: its publishes are only uploads
	slots   chan struct{}       // nil: any number of transfers at once
}

// makeBucket creates a bucket, if missing. Reads go to the leader: a lagging replica
// may not have the newest objects.
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

// findBucket opens an existing bucket.
func findBucket(ctx context.Context, js jetstream.JetStream, name string) (bucket, error) {
	upload, err := jetstream.New(js.Conn(), jetstream.WithPublishAsyncTimeout(CommitTimeout))
	if err != nil {
		return bucket{}, fmt.Errorf("pipeline: JetStream: %w", err)
	}
	objects, err := upload.ObjectStore(ctx, name)
	if err != nil {
		return bucket{}, fmt.Errorf("pipeline: object store %s: %w", name, err)
	}
	stream, err := js.Stream(ctx, bucketStream(name))
	if err != nil {
		return bucket{}, fmt.Errorf("pipeline: object store %s: %w", name, err)
	}
	return bucket{objects: objects, stream: stream, Bucket: name, upload: upload}, nil
}

func bucketStream(bucket string) string { return "OBJ_" + bucket }

// Subjects of the bucket, by the object store's format (ADR-20).
func (s *bucket) chunkSubject(id string) string { return "$O." + s.Bucket + ".C." + id }
func (s *bucket) entrySubject(name string) string {
	return "$O." + s.Bucket + ".M." + base64.URLEncoding.EncodeToString([]byte(name))
}

// putObject stores an object.
func (s *bucket) putObject(ctx context.Context, meta jetstream.ObjectMeta, b []byte) error {
	meta.Opts = &jetstream.ObjectMetaOptions{ChunkSize: bucketChunk}
	_, err := s.objects.Put(ctx, meta, &paced{&unhurried{bytes.NewReader(b)}, ctx, s.upload})
	return err
}

// paced waits while too many chunks of all uploads are unacknowledged: the object store
// publishes without waiting for answers.
type paced struct {
	of  *unhurried
	ctx context.Context
	js  jetstream.JetStream
}

func (r *paced) Read(b []byte) (int, error) {
	for r.js.PublishAsyncPending() >= piecesUnderWay {
		if err := Pause(r.ctx, time.Millisecond); err != nil {
			return 0, err
		}
	}
	return r.of.Read(b)
}

// unhurried pauses before the end: Put starts a goroutine with the first chunk, and
// nats.go 1.55.0 leaks the goroutine if Put returns before the goroutine has run.
type unhurried struct{ *bytes.Reader }

func (r *unhurried) Read(b []byte) (int, error) {
	if r.Len() == 0 {
		time.Sleep(time.Millisecond)
	}
	return r.Reader.Read(b)
}

// errChunks reports an object with missing chunks.
var errChunks = errors.New("pieces of it are missing")

// Download is the progress of reading an object. A new attempt continues after the last
// chunk read.
type Download struct {
	info   *jetstream.ObjectInfo
	data   []byte
	pieces uint32
	next   uint64 // the next chunk has this number or a higher number
}

// getObject reads an object of at most `most` bytes. In a cluster, an object that seems
// lost is requested again during StaleGrace. lost identifies the errors for a loss. An
// object replaced during the read (the old chunks are then gone) is re-read.
func (s *bucket) getObject(ctx context.Context, name string, most int64, d *Download, lost func(error) bool) ([]byte, *jetstream.ObjectInfo, error) {
	late := time.Now().Add(StaleGrace)
	for {
		err := s.readObject(ctx, name, most, d)
		if err == nil {
			return d.data, d.info, nil
		}
		if time.Now().After(late) || !s.storedAnew(ctx, name, d.info) && !(lost(err) && s.isReplicated()) {
			return nil, d.info, err
		}
		if err := Pause(ctx, RetryWait); err != nil {
			return nil, nil, err
		}
	}
}

// storedAnew reports whether an object differs from the entry was, nil for none.
func (s *bucket) storedAnew(ctx context.Context, name string, was *jetstream.ObjectInfo) bool {
	if was == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, CommitTimeout)
	defer cancel()
	is, err := s.objects.GetInfo(ctx, name)
	return err == nil && is.NUID != was.NUID
}

// readObject reads the missing part of an object, and compares the whole object with
// its stored sha256. Chunks are requested from the leader one by one: a slow server
// then sends nothing twice.
func (s *bucket) readObject(ctx context.Context, name string, most int64, d *Download) error {
	try, cancel := context.WithTimeout(ctx, CommitTimeout)
	defer cancel()
	info, err := s.objects.GetInfo(try, name)
	if err != nil {
		return err
	}
	if d.info == nil || d.info.NUID != info.NUID {
		*d = Download{info: info, next: 1, data: make([]byte, 0, min(info.Size, 1<<30))}
	}
	if info.Size > uint64(most) {
		return fmt.Errorf("it has %d bytes, want at most %d", info.Size, most)
	}
	for ; d.pieces < info.Chunks; d.pieces++ {
		m, err := s.readChunk(ctx, s.chunkSubject(info.NUID), d.next)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return fmt.Errorf("%w: %d of %d are there", errChunks, d.pieces, info.Chunks)
		}
		if err != nil {
			return err
		}
		if d.data = append(d.data, m.Data...); int64(len(d.data)) > most {
			return fmt.Errorf("it has more than %d bytes", most)
		}
		d.next = m.Sequence + 1
	}
	switch _, err = s.readChunk(ctx, s.chunkSubject(info.NUID), d.next); {
	case err == nil: // a chunk was added
		err = jetstream.ErrDigestMismatch
	case errors.Is(err, jetstream.ErrMsgNotFound):
		err = d.compareDigest(info)
	default:
		return err
	}
	if err != nil {
		*d = Download{info: info, next: 1} // the next attempt reads the whole object
	}
	return err
}

// compareDigest compares the read object with its stored size and sha256.
func (d *Download) compareDigest(info *jetstream.ObjectInfo) error {
	want, err := jetstream.DecodeObjectDigest(info.Digest)
	if sum := sha256.Sum256(d.data); err == nil && (!bytes.Equal(sum[:], want) || uint64(len(d.data)) != info.Size) {
		return jetstream.ErrDigestMismatch
	}
	return err
}

// readChunk is the first message on a subject from number from on. A worker waits for no
// more than transfersAtOnce pieces together.
func (s *bucket) readChunk(ctx context.Context, subject string, from uint64) (*jetstream.RawStreamMsg, error) {
	done, err := s.beginTransfer(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	try, cancel := context.WithTimeout(ctx, CommitTimeout)
	defer cancel()
	return s.stream.GetMsg(try, from, jetstream.WithGetMsgSubject(subject))
}

// beginTransfer waits until something more may be read or written.
func (s *bucket) beginTransfer(ctx context.Context) (done func(), err error) {
	if s.slots == nil {
		return func() {}, nil
	}
	select {
	case s.slots <- struct{}{}:
		return func() { <-s.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// transferTime is how long the transfer of an object may take.
func transferTime(bytes uint64) time.Duration {
	return CommitTimeout + time.Duration(bytes/slowestStore)*time.Second
}

// isReplicated reports whether the bucket has several copies, with a changeable leader.
func (s *bucket) isReplicated() bool { return s.stream.CachedInfo().Config.Replicas > 1 }
