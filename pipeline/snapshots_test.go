package pipeline_test

import (
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Snapshots left by killed workers are swept, the current snapshot is not.
func TestOrphansAreSwept(t *testing.T) {
	m := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked})
	b := newRig(t)
	c := quickConfig("sweep", 1)
	b.answerPackets(m, c, []pipelinetest.Packet{pipelinetest.One("a", 1, 2, 1, false)}, 1)
	store, err := b.js.ObjectStore(t.Context(), wire.SnapshotBucket("sweep"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"p0.e1.77", "p7.e1.5", "somebody's"} {
		if _, err := store.PutString(t.Context(), name, "left behind"); err != nil {
			t.Fatal(err)
		}
	}
	r := b.startStage(m, c)
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if _, err := store.GetInfo(t.Context(), "p0.e1.77"); err != nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the orphan is still there")
		}
	}
	b.publishPackets([]pipelinetest.Packet{pipelinetest.One("a", 2, 2, 1, true)})
	b.settleMessages(r, 2)
	r.stopStage(t)
	for _, name := range []string{"p7.e1.5", "somebody's"} { // not ours to judge
		if _, err := store.GetInfo(t.Context(), name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := flags(b.readPredictions("sweep")["a"]); got != "2.1:" {
		t.Errorf("predictions %q", got)
	}
}
