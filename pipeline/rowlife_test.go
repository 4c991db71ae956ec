package pipeline_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Objects left by killed workers are swept; objects named by a snapshot or of other
// partitions stay.
func TestRowsAreSwept(t *testing.T) {
	b, m, c := openedJob(t, "rows", 8)
	c.Partitions = 1
	for _, subject := range []string{"rows.rows.0.1", "rows.rows.0.0", "rows.rows.7.1", "rows.rows.0.99"} {
		if _, err := b.js.Publish(t.Context(), subject, []byte("left behind")); err != nil {
			t.Fatal(err)
		}
	}
	r := b.startStage(m, c)
	s, err := b.js.Stream(t.Context(), wire.RowStream("rows"))
	if err != nil {
		t.Fatal(err)
	}
	of := func(subject string) int {
		info, err := s.Info(t.Context(), jetstream.WithSubjectFilter(subject))
		if err != nil {
			t.Fatal(err)
		}
		return int(info.State.Subjects[subject])
	}
	for end := time.Now().Add(patience); of("rows.rows.0.0") > 0 || of("rows.rows.0.1") > len(b.namedRows("rows", 0)); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the orphans are still there")
		}
	}
	if of("rows.rows.7.1") != 1 || of("rows.rows.0.99") != 1 {
		t.Error("rows of another partition or a later owner were deleted")
	}
	for i := range 8 {
		b.publishPackets([]pipelinetest.Packet{pipelinetest.One(fmt.Sprint("k", i), 2, 2, 1, true)})
	}
	b.awaitPredictions("rows", 8)
	r.stopStage(t)
}

// Rows written and read back before the first snapshot are named by no snapshot, and
// deleted with the first.
func TestRowsBeforeTheFirstSnapshot(t *testing.T) {
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	c := quickConfig("early", 1)
	c.MaxSlots, c.SnapshotMessages = 2, 1000
	r := b.startStage(m, c)
	const streams = 8
	for seq := range uint64(3) {
		for i := range streams {
			b.publishPackets([]pipelinetest.Packet{pipelinetest.One(fmt.Sprint("k", i), seq+1, 2, float32(i)/9, false)})
		}
	}
	if s := b.settleMessages(r, 3*streams); s.Fetched < streams {
		t.Fatalf("%d rows came back: the test has lost its subject", s.Fetched)
	}
	r.stopStage(t)
	b.onlyNamedRows("early", 1)
}

// onlyNamedRows requires that the store holds exactly the rows named by the job's
// snapshots, after pending deletions.
func (b *rig) onlyNamedRows(job string, partitions int) {
	b.t.Helper()
	named := map[uint64]bool{}
	for p := range partitions {
		for _, ref := range b.namedRows(job, p) {
			named[ref.Seq] = true
		}
	}
	s, err := b.js.Stream(b.t.Context(), wire.RowStream(job))
	if err != nil {
		b.t.Fatal(err)
	}
	var n uint64
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		info, err := s.Info(b.t.Context())
		if err != nil {
			b.t.Fatal(err)
		}
		if n = info.State.Msgs; int(n) == len(named) {
			break
		}
	}
	if int(n) != len(named) {
		b.t.Errorf("%d rows in the store, the snapshots name %d", n, len(named))
	}
	for seq := range named {
		if _, err := s.GetMsg(b.t.Context(), seq); err != nil {
			b.t.Errorf("row %d: %v", seq, err)
		}
	}
}

// namedRows returns the stored rows in a partition's snapshot.
func (b *rig) namedRows(job string, part int) (refs []wire.RowRef) {
	b.t.Helper()
	_, r := b.lastRecord(job, part)
	if r.Snap == "" {
		return nil
	}
	store, err := b.js.ObjectStore(b.t.Context(), wire.SnapshotBucket(job))
	if err != nil {
		b.t.Fatal(err)
	}
	raw, err := store.GetBytes(b.t.Context(), r.Snap)
	if err != nil {
		b.t.Fatal(err)
	}
	sh, _, err := state.ShapeIn(raw)
	if err != nil {
		b.t.Fatal(err)
	}
	p, err := state.Decode(raw, sh, part)
	if err != nil {
		b.t.Fatal(err)
	}
	for st := range p.Oldest() {
		for _, ref := range st.Away {
			if ref.Seq > 0 {
				refs = append(refs, ref)
			}
		}
	}
	return refs
}
