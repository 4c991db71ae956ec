package store

import (
	"context"
	"log/slog"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
	"github.com/eusn-stream/eusn-stream/pipeline/natsserver"
)

// What a second worker finds is compared as if it had been there for long.
func TestSecondComerCompares(t *testing.T) {
	_, js := pipelinetest.Connect(t, pipelinetest.Server(t, natsserver.Options{}))
	c := layout("late")
	c.Partitions = 3
	other := c
	other.Partitions = 4
	for i, want := range c.streams() {
		if _, err := js.CreateStream(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		s, err := createStream(t.Context(), js, other.streams()[i])
		if err != nil || s.CachedInfo().Config.Name != want.Name {
			t.Errorf("%s: %v", want.Name, err)
		}
	}
	pipelinetest.Mentions(t, EnsureStreams(t.Context(), js, other, pipelinetest.Log(t)), "partition(4,1)", "partition(3,1)", "eusn-stream job resize")
}

// layout is a job's with the settings that a stage takes by itself.
func layout(job string) Layout {
	return Layout{Job: job, InputSubject: wire.DefaultInputSubject, Partitions: 64, MaxMessage: 1<<20 - 16<<10, Replicas: 1, DeadLetterKeep: 100_000}
}

// snapshotsOf is the store of a job that has not run.
func snapshotsOf(ctx context.Context, js jetstream.JetStream, c Layout) (*Snapshots, error) {
	if err := EnsureStreams(ctx, js, c, slog.New(slog.DiscardHandler)); err != nil {
		return nil, err
	}
	return OpenSnapshots(ctx, js, c.Job, c.Replicas)
}
