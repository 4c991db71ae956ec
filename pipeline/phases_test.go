package pipeline

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/owner"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
)

// The description of an unread partition depends on its phase, and on its assignment to
// this worker.
func TestUnready(t *testing.T) {
	held := func() *owner.Ownership {
		w := &owner.Worker{Lease: time.Minute, Server: owner.Server{In: &store.Input{}, Snaps: &store.Snapshots{}}}
		return owner.New(t.Context(), w, &shard.Shard{}, 4, 0)
	}
	share := []int{4}
	want := func(tn *owner.Ownership, phase Phase, unready string) {
		t.Helper()
		v := &view{renewed: time.Now(), share: share, owned: map[int]*owner.Ownership{4: tn}}
		s := Status{Running: true, Connected: true, Lease: time.Minute, Renewed: v.renewed, Partitions: v.listPartitions()}
		if s.Partitions[0].Phase != phase {
			t.Errorf("phase %s, want %s", s.Partitions[0].Phase, phase)
		}
		if why := strings.Join(s.Unready(), "; "); why != unready {
			t.Errorf("%s: unready %q, want %q", phase, why, unready)
		}
	}
	tn := held()
	want(tn, Claiming, "partition 4: claiming")
	tn.Stop()
	want(tn, Releasing, "partition 4: releasing") // reassigned to this worker before another worker owned it
	share = nil
	want(tn, Releasing, "")
	share = []int{4}
	tn.Fail(store.ErrFenced)
	want(tn, Claiming, "partition 4: claiming")
	tn = held()
	tn.Fail(errors.New("pipeline: its snapshot\nis lost"))
	want(tn, Stopped, "partition 4: stopped: its snapshot is lost")
	for phase, unready := range map[Phase]string{Restoring: "partition 4: restoring", Replaying: "partition 4: replaying", Reading: ""} {
		s := Status{Running: true, Connected: true, Lease: time.Minute, Renewed: time.Now(), Partitions: []PartitionHealth{{Partition: 4, Share: true, Phase: phase}}}
		if why := strings.Join(s.Unready(), "; "); why != unready {
			t.Errorf("%s: unready %q, want %q", phase, why, unready)
		}
	}
	// Reaped: the manager has the reason, or will begin a new ownership.
	v := &view{share: []int{4, 5}, stopped: map[int]error{4: errors.New("lost")}}
	if p := v.listPartitions(); p[0].Phase != Stopped || p[1].Phase != Claiming {
		t.Errorf("%+v, want 4 stopped and 5 to be claimed", p)
	}
}
