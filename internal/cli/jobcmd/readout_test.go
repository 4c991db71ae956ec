package jobcmd

import (
	"bytes"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/eusn-stream/eusn-stream/internal/fleet"
)

// After a promotion the text names the promoted readout, in the line of the job and in
// those of its workers, instead of the first readout of the job or of the worker's
// model.
func TestPromotedReadoutIsNamed(t *testing.T) {
	r := &fleet.Report{Model: fleet.JobModel{Readout: "default"}}
	worker := fleet.Process{Role: fleet.RoleStage, Stage: &fleet.Stage{}}
	worker.Stage.Model.Readout = "default"
	line := func() string {
		var text bytes.Buffer
		w := tabwriter.NewWriter(&text, 0, 0, 1, ' ', 0)
		processLine(w, &worker, r)
		w.Flush()
		return text.String()
	}
	if job := jobReadout(&r.Model); job != "readout default" || !strings.Contains(line(), "default") {
		t.Errorf("before a promotion: %q, %q", job, line())
	}
	r.Model.Promoted, r.Model.Promotions = "0123456789abcdef", 1
	if job := jobReadout(&r.Model); job != "promoted readout 0123456789ab" || !strings.Contains(line(), "0123456789ab (promoted)") || strings.Contains(line(), "default") {
		t.Errorf("after a promotion: %q, %q", job, line())
	}
}
