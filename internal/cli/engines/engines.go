package engines

import (
	"fmt"
	"slices"
	"strings"

	"github.com/eusn-stream/eusn-stream/gpu"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Kinds are the values of --engine and stage.engine, on any machine.
var Kinds = config.Enum("stage.engine")

// gpuProducts are the engine kinds that need a GPU. Auto never takes one whose
// bits differ.
var gpuProducts = map[string]gpu.Products{"gpu": gpu.Canonical, "gpu-3xtf32": gpu.TF32x3, "gpu-2xtf32": gpu.TF32x2}

// OtherBits is what to say, once, of an engine whose bits differ; empty of the
// others.
func OtherBits(kind string) string {
	if gpuProducts[kind] == gpu.Canonical {
		return ""
	}
	return "its states differ from those of every other engine in the last bits; a job started with this engine can be resumed only by it"
}

// Check refuses an engine that this machine or build does not have,
// before anything is started.
func Check(kind string) error {
	switch {
	case !slices.Contains(Kinds, kind):
		return cli.Fail(cli.ExitUsage, fmt.Errorf("engine %q, want one of %s", kind, strings.Join(Kinds, ", ")), "eusn-stream doctor")
	case IsGPU(kind):
		if _, err := gpu.Devices(); err != nil {
			return gpuFailure(err)
		}
	case kind != "auto" && !slices.Contains(reservoir.CPUKinds(), kind):
		return cli.Fail(cli.ExitUnreachable, fmt.Errorf("this CPU cannot run the %s engine", kind), "--engine auto, which uses the fastest that runs here: "+reservoir.CPUKinds()[0])
	}
	return nil
}

// Choose is the engine kind that runs a network of the recipe: kind itself, but
// where auto must take another one than ever it is that, and note says why, for
// people. It refuses a kind that cannot run the network.
func Choose(kind string, s reservoir.Spec) (chosen, note string, err error) {
	switch {
	case s.Kind != reservoir.Mixed || kind == "generic":
		return kind, "", nil
	case kind == "auto":
		return "generic", "this network is a mixed bank; only the generic engine can run it so far, which is slower", nil
	}
	return "", "", cli.Fail(cli.ExitUsage, fmt.Errorf("engine %s cannot run this network, which is a mixed bank", kind), "--engine auto, which takes the generic engine for it")
}

// IsGPU reports whether an engine kind needs a GPU.
func IsGPU(kind string) bool {
	_, ok := gpuProducts[kind]
	return ok
}

// New opens engines of one kind, each on one thread: shards and offline
// jobs open one per core. Auto is the CPU here; a running stage has
// ForStage.
func New(kind string) pipeline.EngineFactory {
	if IsGPU(kind) {
		return NewGPU(kind, 0)
	}
	return func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
		return reservoir.NewCPU(net, slots, kind, 1)
	}
}
