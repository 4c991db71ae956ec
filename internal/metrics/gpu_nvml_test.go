//go:build linux && cgo && !nonvml && (amd64 || arm64)

package metrics

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/telemetry"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// TestNVML tests the path from the driver's library to the page: the reader opens a test NVML like
// the real library.
func TestNVML(t *testing.T) {
	const source = "../../internal/telemetry/testdata/nvml.c"
	if _, err := os.ReadFile(source); err != nil { // otherwise the test cache would miss changes
		t.Fatal(err)
	}
	lib := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	if out, err := exec.Command(cmp.Or(os.Getenv("CC"), "cc"), "-shared", "-fPIC", "-o", lib, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	saved := telemetry.Library
	telemetry.Library = lib
	defer func() { telemetry.Library = saved }()
	r, err := telemetry.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	base, _ := startServer(t, Options{Counters: new(pipeline.Counters), GPUs: r})
	_, page := getPage(t, base+"/metrics")
	samples(t, page, map[string]float64{
		`eusn_gpu_energy_joules_total{gpu="0",uuid="GPU-0"}`: 6.5, `eusn_gpu_power_watts{gpu="0",uuid="GPU-0"}`: 98.5,
		`eusn_gpu_memory_used_bytes{gpu="1",uuid="GPU-1"}`: 600, `eusn_gpu_temperature_celsius{gpu="1",uuid="GPU-1"}`: 41,
		`eusn_gpu_info{gpu="1",name="Fake GPU 1",pci="0000:1c:00.0",uuid="GPU-1"}`: 1,
	})
	if strings.Contains(page, `eusn_gpu_power_watts{gpu="1"`) || strings.Contains(page, `eusn_gpu_energy_joules_total{gpu="1"`) {
		t.Error("the second card tells no power and no energy, and has some")
	}
}
