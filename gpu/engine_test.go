//go:build linux && cgo

package gpu

import (
	"math"
	"testing"

	"github.com/eusn-stream/eusn-stream/gpu/internal/testing/cudatest"
	"github.com/eusn-stream/eusn-stream/internal/testing/enginetest"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// small makes calls take many pieces, and reads many windows.
var small = limits{samples: 256, runs: 5, scores: 200, window: 300}

// TestHostConforms runs the suite on the host side only, with pieces and
// windows so small that every call needs many, on streams that run in the least
// convenient order. Go code replaces each kernel by its documented function
// (twin_test.go).
func TestHostConforms(t *testing.T) {
	f := cudatest.Use(t, nil)
	f.Set("order", 1)
	enginetest.Results(t, func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
		return openTwin(f, net, slots, small)
	}, math.MaxInt)
}

// TestConforms runs the suite through host, fake driver and the embedded PTX in the
// interpreter. A network of 255 units exceeds the shared memory of the kernels, as a
// network of 1,024 units does, but takes a quarter of the time. TestHostConforms has
// the 1,024 units, and kernels.TestShapes has a network of 701 units.
func TestConforms(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT CHECKED: the interpreter takes half a minute for the whole suite")
	}
	cudatest.Use(t, cudatest.Interpreter())
	enginetest.Results(t, func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
		return newEngine(net, slots, Options{}, limits{1 << 16, 1 << 10, 1 << 14, 1 << 14}, false)
	}, 255)
}

// TestMixedConforms is TestConforms for networks of kind mixed, with pieces that
// may end at every sample of a run.
func TestMixedConforms(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT CHECKED: the interpreter takes half a minute for the whole suite")
	}
	cudatest.Use(t, cudatest.Interpreter())
	enginetest.MixedResults(t, func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
		return newEngine(net, slots, Options{}, limits{1 << 12, 1 << 6, 1 << 12, 1 << 14}, false)
	})
}

func openTwin(f *cudatest.Fake, net *reservoir.Network, slots int, l limits) (*Engine, error) {
	w, err := newTwin(net)
	if err != nil {
		return nil, err
	}
	f.Run(w)
	return newEngine(net, slots, Options{}, l, true)
}

// TestNoAllocation: launches do nothing here, because a Runner allocates.
func TestNoAllocation(t *testing.T) {
	f := cudatest.Use(t, twin{Memory: new(cudatest.Memory)})
	f.Set("skip_launches", 1)
	enginetest.NoAllocation(t, func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
		return newEngine(net, slots, Options{}, small, false)
	})
}
