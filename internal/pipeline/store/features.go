package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// FeatureAge and FeatureBytes limit how many predictions with features a new job keeps:
// the oldest are removed. An operator may change the limits (docs/learn.md).
const (
	FeatureAge   = 90 * 24 * time.Hour
	FeatureBytes = 4 << 30
)

// MakeFeatures creates the NATS stream of a job's predictions with features, if
// missing, with as many replicas as the job's output.
func MakeFeatures(ctx context.Context, js jetstream.JetStream, job string, out jetstream.Stream) error {
	name := wire.FeatureStream(job)
	_, err := js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		_, err = createStream(ctx, js, jetstream.StreamConfig{
			Name: name, Subjects: []string{wire.FeatureSubjects(job)}, Storage: jetstream.FileStorage, Replicas: out.CachedInfo().Config.Replicas,
			MaxAge: FeatureAge, MaxBytes: FeatureBytes, MaxMsgs: -1, MaxMsgsPerSubject: -1, Discard: jetstream.DiscardOld,
		})
	}
	if err != nil {
		return fmt.Errorf("pipeline: NATS stream %s for predictions that carry their features (output.features_one_in): %w: allow this worker to see it, and where it is not there to make it, of at most %d bytes", name, err, int64(FeatureBytes))
	}
	return nil
}

// Features publishes predictions with features. Concurrent use is allowed.
type Features struct {
	JS      jetstream.JetStream
	Link    *Link // of JS
	Job     string
	Network string // identity of the model without readouts
	Begun   string // when the job's output was made
	Limit   int    // largest body that the server accepts, bytes
	Retries func()
}

// Publish sends a message of a partition until the server has stored it, perhaps
// repeatedly: each prediction has its number.
func (f *Features) Publish(ctx context.Context, part int, body []byte, w Waiter) error {
	p := patiently{f.JS, f.Link, f.Retries}
	m := &nats.Msg{Subject: wire.FeatureSubject(f.Job, part), Data: body, Header: nats.Header{
		wire.HeaderKind: {wire.KindFeatures}, wire.HeaderOutCreated: {f.Begun}, wire.HeaderNetwork: {f.Network},
	}}
	return p.publishUntilStored(ctx, m, "predictions with their features", wire.FeatureStream(f.Job), w)
}
