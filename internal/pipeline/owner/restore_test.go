package owner

import (
	"log/slog"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// A claim waits while snapshots are unavailable.
func TestClaimWithoutSnapshots(t *testing.T) {
	t.Parallel()
	_, js := pipelinetest.Connect(t, pipelinetest.Server(t, natsserver.Options{}))
	sensors, err := wire.ParsePattern(wire.DefaultInputSubject)
	if err != nil {
		t.Fatal(err)
	}
	c := store.Layout{Job: "claim", Input: sensors, Partitions: 1, Replicas: 1}
	if err := store.EnsureStreams(t.Context(), js, c, pipelinetest.Log(t)); err != nil {
		t.Fatal(err)
	}
	s, err := store.OpenSnapshots(t.Context(), js, c.Job, c.Replicas)
	if err != nil {
		t.Fatal(err)
	}
	rec := wire.Record{Snap: wire.SnapshotName(0, 1, 1)}
	rec.SnapSeq = 1
	if err := s.Put(t.Context(), rec.Snap, []byte("state")); err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), wire.SnapshotStream(c.Job)); err != nil {
		t.Fatal(err)
	}
	tn := &Ownership{w: &Worker{Log: slog.New(slog.DiscardHandler), Server: Server{Snaps: s}}, part: shard.NewPartition(0, 0), c: &store.Committer{Record: rec}, ctx: t.Context()}
	pipelinetest.Mentions(t, tn.restoreState(), "CLAIM-SNAP is gone: restore it", store.ErrLater.Error())
}
