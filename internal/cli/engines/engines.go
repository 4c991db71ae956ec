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
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// Kinds are the values of --engine and stage.engine, on any machine.
var Kinds = config.Enum("stage.engine")

// gpuProducts are the engine kinds that need a GPU. Auto never selects a kind with
// different bits.
var gpuProducts = map[string]gpu.Products{"gpu": gpu.Canonical, "gpu-3xtf32": gpu.TF32x3, "gpu-2xtf32": gpu.TF32x2}

// OtherBits is the warning, once, for an engine with different bits; empty for the
// others.
func OtherBits(kind string) string {
	if gpuProducts[kind] == gpu.Canonical {
		return ""
	}
	return "its states differ from those of every other engine in the last bits; a job started with this engine can be resumed only by it"
}

// Check refuses an engine that this machine or build does not have, before any start.
func Check(kind string) error {
	switch {
	case !slices.Contains(Kinds, kind):
		return cli.Fail(cli.ExitUsage, fmt.Errorf("engine %q, want one of %s", kind, strings.Join(Kinds, ", ")), "eusn-stream doctor")
	case IsGPU(kind):
		if _, err := gpu.Devices(); err != nil {
			return gpuFailure(err)
		}
	case kind != "auto" && !slices.Contains(cpu.Kinds(reservoir.Spec{}), cpu.Kind(kind)):
		return cli.Fail(cli.ExitUnreachable, fmt.Errorf("this CPU cannot run the %s engine", kind), "--engine auto, which uses the fastest that runs here: "+FastestCPU())
	}
	return nil
}

// FastestCPU is the fastest engine of this machine's CPU.
func FastestCPU() string { return string(cpu.Kinds(reservoir.Spec{})[0]) }

// Choose returns the engine kind for a network of the recipe: kind itself, except for a
// mixed bank, which not all engines support: there auto is the fastest supporting CPU
// engine. A GPU is used only on request, without tensor cores. slow is a note for
// people that only the generic engine works. A kind that cannot run the network is
// refused.
func Choose(kind string, s reservoir.Spec) (chosen, slow string, err error) {
	if s.Kind != reservoir.Mixed {
		return kind, "", nil
	}
	able := cpu.Kinds(s)
	switch {
	case kind == "auto" && able[0] == cpu.Generic:
		return string(able[0]), "this network is a mixed bank; on this machine only the generic engine can run it so far, which is slow", nil
	case kind == "auto":
		return string(able[0]), "", nil
	case slices.Contains(able, cpu.Kind(kind)), IsGPU(kind) && gpuProducts[kind] == gpu.Canonical:
		return kind, "", nil
	}
	return "", "", cli.Fail(cli.ExitUsage, fmt.Errorf("engine %s cannot run this network, which is a mixed bank", kind), "--engine auto, which takes "+string(able[0]))
}

// WhyCPU explains why auto selects the CPU for a mixed bank on this machine.
func WhyCPU() string {
	if _, err := gpu.Devices(); err != nil {
		return cli.ErrorText(err)
	}
	return "no card has run the GPU kernels of mixed banks yet; --engine gpu takes them"
}

// IsGPU reports whether an engine kind needs a GPU.
func IsGPU(kind string) bool {
	_, ok := gpuProducts[kind]
	return ok
}

// New opens engines of one kind, each on one thread: shards and offline jobs open one
// per core. Auto is the CPU here; a running stage uses ForStage.
func New(kind string) pipeline.EngineFactory {
	if IsGPU(kind) {
		return NewGPU(kind, 0)
	}
	return func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
		return cpu.New(net, slots, cpu.Options{Kind: cpu.Kind(kind), Threads: 1})
	}
}
