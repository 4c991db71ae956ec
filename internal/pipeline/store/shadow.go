package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

const (
	// ShadowAge and ShadowBytes limit the stored predictions of a job's shadows: the
	// oldest are removed.
	ShadowAge   = 30 * 24 * time.Hour
	ShadowBytes = 1 << 30
	// ShadowPatience is how long a commit waits for the storage of shadow predictions,
	// shadowPause how long nothing is sent after a timeout: shadows take at most a
	// twentieth of a worker's time for commits, for any behavior of the server.
	ShadowPatience = time.Second
	shadowPause    = 20 * ShadowPatience
)

// MakeShadows creates the NATS stream of the predictions of a job's shadows, if
// missing, with as many replicas as the job's output.
func MakeShadows(ctx context.Context, js jetstream.JetStream, job string, out jetstream.Stream) error {
	_, err := createStream(ctx, js, jetstream.StreamConfig{
		Name: wire.ShadowStream(job), Subjects: []string{wire.ShadowSubjects(job)}, Storage: jetstream.FileStorage, Replicas: out.CachedInfo().Config.Replicas,
		MaxAge: ShadowAge, MaxBytes: ShadowBytes, MaxMsgs: -1, MaxMsgsPerSubject: -1, Discard: jetstream.DiscardOld,
	})
	if err != nil {
		return fmt.Errorf("pipeline: NATS stream %s for what shadows predict cannot be made: %w", wire.ShadowStream(job), err)
	}
	return nil
}

// ShadowPublisher returns the publisher for the shadows of a job with the given
// partitions. This publisher is separate from the commits' publisher, so that commits
// never wait for shadows.
func ShadowPublisher(nc *nats.Conn, partitions int, patience time.Duration) (jetstream.JetStream, error) {
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncTimeout(patience), jetstream.WithPublishAsyncMaxPending(2*wire.MostShadows*partitions))
	if err != nil {
		return nil, fmt.Errorf("pipeline: JetStream: %w", err)
	}
	return js, nil
}

// Shadows publishes the shadows' predictions. It belongs to one goroutine.
type Shadows struct {
	JS       jetstream.JetStream // separate publisher: a pending answer takes no place of a commit
	Job      string
	Patience time.Duration                           // how long Await waits
	Begun    string                                  // when the job's output was made
	Count    func(shadow string, stored, missed int) // predictions
	Log      *slog.Logger

	sent  []sentShadow
	until time.Time // nothing is sent before
	told  time.Time
}

// sentShadow is a message without an answer.
type sentShadow struct {
	shadow      string
	predictions int
	future      jetstream.PubAckFuture
	err         error
}

// IsReady reports whether shadows are sent now.
func (s *Shadows) IsReady() bool { return time.Now().After(s.until) }

// Send publishes n predictions of a shadow; the last prediction has the number outs in
// the partition. Await must follow.
func (s *Shadows) Send(shadow string, part, n int, outs uint64, body []byte) {
	m := &nats.Msg{Subject: wire.ShadowSubject(s.Job, shadow, part), Data: body, Header: nats.Header{
		wire.HeaderKind: {wire.KindShadow}, wire.HeaderOuts: {fmt.Sprint(outs)}, wire.HeaderOutCreated: {s.Begun},
	}}
	f, err := s.JS.PublishMsgAsync(m, jetstream.WithRetryAttempts(0))
	s.sent = append(s.sent, sentShadow{shadow, n, f, err})
}

// Await waits briefly until the server has stored the sent predictions. Predictions not
// stored are lost: the commits continue.
func (s *Shadows) Await(ctx context.Context) {
	if len(s.sent) == 0 {
		return
	}
	late := time.NewTimer(s.Patience)
	defer late.Stop()
	var failed error
	for i := range s.sent {
		one := &s.sent[i]
		if one.err == nil {
			one.err = one.awaitStored(ctx, late.C, failed != nil)
		}
		if one.err != nil {
			failed = one.err
			s.Count(one.shadow, 0, one.predictions)
			continue
		}
		s.Count(one.shadow, one.predictions, 0)
	}
	clear(s.sent)
	s.sent = s.sent[:0]
	if failed == nil || ctx.Err() != nil {
		return
	}
	now := time.Now()
	s.until = now.Add(shadowPause)
	if now.Sub(s.told) >= ToldEvery {
		s.told = now
		s.Log.Warn("predictions of shadow models cannot be stored and are omitted for "+shadowPause.String()+"; the job's own predictions continue: check that the NATS stream exists, its limits and the stage's rights (docs/models.md)",
			"stream", wire.ShadowStream(s.Job), "err", failed)
	}
}

// errShadowLate reports a slow server.
var errShadowLate = errors.New("no answer in time")

// awaitStored waits for an answer; atOnce: accept only an answer already arrived.
func (one *sentShadow) awaitStored(ctx context.Context, late <-chan time.Time, atOnce bool) error {
	select {
	case <-one.future.Ok():
		return nil
	case err := <-one.future.Err():
		return err
	default:
	}
	if atOnce {
		return errShadowLate
	}
	select {
	case <-one.future.Ok():
		return nil
	case err := <-one.future.Err():
		return err
	case <-late:
		return errShadowLate
	case <-ctx.Done():
		return ctx.Err()
	}
}
