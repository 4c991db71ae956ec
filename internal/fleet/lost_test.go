package fleet_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/fleet"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// TestEmptiedOutput: a job whose output was emptied has lost the position of each partition. The
// report states this first, as a starting worker does, and does not claim that no data is lost.
func TestEmptiedOutput(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.startWorker(testModel(t), pipeline.Config{Partitions: 2})
	r.publishSamples("a", 5)
	r.waitForReport("an answer", func(rep *fleet.Report) bool { return rep.Lag.Answered >= 0 && rep.Lag.Messages == 0 })
	w.stop()
	out, err := r.js.Stream(t.Context(), wire.OutputStream(job))
	if err != nil {
		t.Fatal(err)
	}
	if err := out.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	rep := r.report()
	if f := rep.Findings[0]; f.Level != fleet.Problem || f.About != "output" || !strings.Contains(f.Sentence, "EUSN-OUT holds nothing of the job") || rep.First != f.Do || !strings.Contains(f.Do, "eusn-stream run --job NEW --input-job eusn") {
		t.Errorf("%+v, first %q", f, rep.First)
	}
	for _, f := range rep.Findings {
		if strings.Contains(f.Sentence, "nothing is lost") {
			t.Errorf("%q", f.Sentence)
		}
	}
	if rep.Lag.Messages == 0 {
		t.Errorf("%+v: the input waits for a new job", rep.Lag)
	}
	if err := r.js.DeleteStream(t.Context(), wire.OutputStream(job)); err != nil {
		t.Fatal(err)
	}
	_, err = fleet.BuildReport(t.Context(), r.nc, job)
	if lost := (*admin.LostError)(nil); !errors.As(err, &lost) || !strings.Contains(lost.What, "EUSN-OUT is gone") {
		t.Error(err)
	}
}
