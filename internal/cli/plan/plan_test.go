package plan_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
)

// The command prints the measured figures of a stage: every figure is present, and the numbers
// of bytes match the plant's messages.
func TestPlan(t *testing.T) {
	dir := t.TempDir()
	model, archive := filepath.Join(dir, "model"), filepath.Join(dir, "archive")
	clitest.Must(t, "import", clitest.TinyData(t, "Tiny", 2, 24, 40), "--output", archive)
	clitest.Must(t, "train", archive, "--output", model, "--bank", "euler", "--members", "1", "--units", "5", "--policy", "count", "--length", "20")

	plan := []string{"plan", "--model", model, "--machines", "50", "--sample-rate", "200", "--message", "100ms", "--time", "200ms", "--dir", dir}
	var r struct {
		Plant struct {
			Channels int
			Message  int `json:"samples_per_message"`
		}
		Measured struct {
			Rate    float64 `json:"messages_per_s"`
			Message float64 `json:"cpu_s_per_message"`
			In      float64 `json:"in_bytes_per_message"`
			Out     float64 `json:"out_bytes_per_message"`
			Payload float64 `json:"payload_bytes"`
		}
		Estimate struct {
			Cores   float64
			Memory  float64 `json:"memory_bytes"`
			DiskDay float64 `json:"disk_bytes_per_day"`
			Servers int

			Partitions, Consumers int
		}
	}
	if err := json.Unmarshal([]byte(clitest.Must(t, append(plan, "--json")...).Out), &r); err != nil {
		t.Fatal(err)
	}
	m, e := r.Measured, r.Estimate
	if r.Plant.Channels != 2 || r.Plant.Message != 20 {
		t.Errorf("plant %+v, want the model's 2 channels and messages of 20 samples", r.Plant)
	}
	// Each message has twenty samples of two float32; a message is one sequence.
	if m.Payload < 160 || m.In < m.Payload || m.Out <= 0 || m.Message <= 0 || m.Rate <= 0 || m.Rate > 500 {
		t.Errorf("measured %+v", m)
	}
	if want := 500 * (m.In + m.Out) * 86400; e.DiskDay < .999*want || e.DiskDay > 1.001*want || e.Cores <= 0 || e.Memory <= 0 || e.Servers < 1 {
		t.Errorf("estimate %+v of %+v", e, m)
	}

	text := clitest.Must(t, plan...).Out
	// A killed worker and its successor each have two consumers per partition for a while.
	if e.Partitions != 16 || e.Consumers != 64 || !strings.Contains(text, "up to 64 of a job's input") || !strings.Contains(text, "allows 1000 ") {
		t.Errorf("%d partitions, %d consumers in\n%s", e.Partitions, e.Consumers, text)
	}
	wants := []string{"cores", "memory", "network", "disk", "restart", "servers", "partitions", "consumers"}
	for _, want := range wants {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("no line of %s in\n%s", want, text)
		}
	}

	// With a cluster of three servers.
	text = clitest.Must(t, append(plan, "--replicas", "3")...).Out
	for _, want := range wants {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("no line of %s in\n%s", want, text)
		}
	}
}

func TestPlanRefuses(t *testing.T) {
	clitest.Exec(t, t.Context(), "plan").Want(t, cli.ExitUsage, "no model", "--model")
	dir := t.TempDir()
	model, archive := filepath.Join(dir, "model"), filepath.Join(dir, "archive")
	clitest.Must(t, "import", clitest.TinyData(t, "Tiny", 2, 24, 40), "--output", archive)
	clitest.Must(t, "train", archive, "--output", model, "--bank", "euler", "--members", "1", "--units", "5")
	clitest.Exec(t, t.Context(), "plan", "--model", model, "--machines", "0", "--channels", "3", "--sample-rate", "NaN", "--message", "0s", "--server-cores", "0", "--server-disk", "-1", "--use", "1", "--replicas", "2", "--time", "0s", "--latency", "0s").
		Want(t, cli.ExitUsage, "--machines 0", "--channels 3: the model has 2; plan for the model", "--sample-rate NaN", "--message 0s", "--server-cores 0", "--server-disk -1", "--use 1", "--replicas 2", "--time 0s", "--latency 0s")
}
