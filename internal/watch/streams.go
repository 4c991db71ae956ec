package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

const (
	// MaxEvents is the maximum number of messages in the alarm log; the oldest are removed.
	MaxEvents = 10_000_000
	maxLatest = 8 << 10 // bytes of a stream's entry

	// invalidJSON is the server's error for an unknown setting: batches need NATS 2.14, and 2.11
	// ignores unknown settings.
	invalidJSON jetstream.ErrorCode = 10025
)

// EnsureStreams creates the missing NATS streams and buckets of a job's alarms. The job must exist.
func EnsureStreams(ctx context.Context, js jetstream.JetStream, job string, replicas int) error {
	out, err := js.Stream(ctx, wire.OutputStream(job))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("watch: %w %q", wire.ErrNoJob, job)
	}
	if err != nil {
		return fmt.Errorf("watch: NATS stream %s: %w", wire.OutputStream(job), err)
	}
	replicas = cmp.Or(replicas, out.CachedInfo().Config.Replicas)
	name := wire.AlarmStream(job)
	if _, err = js.Stream(ctx, name); errors.Is(err, jetstream.ErrStreamNotFound) {
		cfg := jetstream.StreamConfig{
			Name: name, Subjects: []string{wire.AlarmSubjects(job)}, Storage: jetstream.FileStorage, Replicas: replicas,
			MaxMsgs: MaxEvents, MaxBytes: -1, MaxMsgsPerSubject: -1, Discard: jetstream.DiscardOld, AllowBatchPublish: true,
		}
		_, err = store.CreateStream(ctx, js, cfg)
		var refused *jetstream.APIError
		if errors.As(err, &refused) && refused.ErrorCode == invalidJSON {
			cfg.AllowBatchPublish = false
			_, err = store.CreateStream(ctx, js, cfg)
		}
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another process was faster
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("watch: NATS stream %s: %w", name, err)
	}
	bucket := wire.LatestBucket(job)
	if _, err = js.KeyValue(ctx, bucket); errors.Is(err, jetstream.ErrBucketNotFound) {
		_, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: bucket, Description: "last prediction and alarms of each stream", History: 1, MaxValueSize: maxLatest,
			Storage: jetstream.FileStorage, Replicas: replicas,
		})
		if errors.Is(err, jetstream.ErrBucketExists) {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("watch: bucket %s: %w", bucket, err)
	}
	return nil
}
