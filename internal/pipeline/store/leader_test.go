package store

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// In a cluster, a stored snapshot is found immediately by every worker, connected to
// any server, and a removed snapshot is gone for all workers: entries are read from the
// leader, and chunks that a lagging server lacks (about one read in fifty here) are
// requested again.
func TestSnapshotsAreReadFromTheLeader(t *testing.T) {
	urls := pipelinetest.Trio(t)
	c := layoutOf("lead")
	c.Replicas = 3
	var all []*Snapshots
	for _, u := range urls {
		js := pipelinetest.JetStreamAt(t, u, nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true))
		var s *Snapshots
		for end := time.Now().Add(pipelinetest.Patience); s == nil; time.Sleep(50 * time.Millisecond) {
			ctx, cancel := context.WithTimeout(t.Context(), CommitTimeout)
			var err error
			if s, err = snapshotsOf(ctx, js, c); err != nil && time.Now().After(end) {
				t.Fatalf("no bucket in the cluster: %v", err)
			}
			cancel()
		}
		all = append(all, s)
	}
	for i, s := range all {
		if s.stream.CachedInfo().Config.AllowDirect {
			t.Errorf("worker %d may read from any replica", i)
		}
		if !s.isReplicated() {
			t.Errorf("worker %d takes three copies for one", i)
		}
	}
	state := make([]byte, 3<<20/2) // two pieces
	for round := range 30 {
		name := wire.SnapshotName(0, 1, uint64(round))
		if err := all[round%3].Put(t.Context(), name, state); err != nil {
			t.Fatal(err)
		}
		for i, s := range all {
			got, err := s.Get(t.Context(), name)
			if err != nil || len(got) != len(state) {
				t.Fatalf("round %d, worker %d: %d bytes, %v", round, i, len(got), err)
			}
		}
		all[(round+1)%3].Remove(t.Context(), name, pipelinetest.Log(t))
		if _, err := all[(round+2)%3].objects.GetInfo(t.Context(), name); err == nil {
			t.Fatalf("round %d: a removed snapshot is still there", round)
		}
	}
}
