package gpu

import (
	"os"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/enginetest"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// TestRealGPU runs the conformance suite on this machine's own GPU. Without
// EUSN_REAL_GPU the test is skipped; with it, a machine without a GPU fails.
func TestRealGPU(t *testing.T) {
	if os.Getenv("EUSN_REAL_GPU") == "" {
		t.Skip("NOT CHECKED: runs on a real GPU only: EUSN_REAL_GPU=1 go test -run RealGPU ./gpu")
	}
	list, err := Devices()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("devices: %+v", list)
	for name, l := range map[string]limits{"as shipped": defaultLimits, "small pieces": {samples: 256, runs: 5, scores: 200, window: 300}} {
		t.Run(name, func(t *testing.T) {
			open := func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
				return newEngine(net, slots, Options{}, l, true)
			}
			enginetest.Run(t, open)
			t.Run("Mixed", func(t *testing.T) { enginetest.Mixed(t, open) })
		})
	}
}
