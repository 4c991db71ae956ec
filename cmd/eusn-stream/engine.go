package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/eusn-stream/eusn-stream/gpu"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// engineKinds are the values of --engine and stage.engine, on any machine.
var engineKinds = []string{"auto", "avx512", "avx2", "neon", "generic", "gpu", "gpu-3xtf32", "gpu-2xtf32"}

// gpuProducts are the engine kinds that need a GPU. Auto never takes one whose
// bits differ.
var gpuProducts = map[string]gpu.Products{"gpu": gpu.Canonical, "gpu-3xtf32": gpu.TF32x3, "gpu-2xtf32": gpu.TF32x2}

// otherBits is what to say, once, of an engine whose bits differ; empty of the
// others.
func otherBits(kind string) string {
	if gpuProducts[kind] == gpu.Canonical {
		return ""
	}
	return "its states differ from every other engine's in the last bits: a job it begins can be gone on with by it alone"
}

// checkEngine refuses an engine that this machine or build does not have,
// before anything is started.
func checkEngine(kind string) error {
	switch {
	case !slices.Contains(engineKinds, kind):
		return fail(exitUsage, fmt.Errorf("engine %q, want one of %s", kind, strings.Join(engineKinds, ", ")), "eusn-stream doctor")
	case isGPU(kind):
		if _, err := gpu.Devices(); err != nil {
			return gpuFailure(err)
		}
	case kind != "auto" && !slices.Contains(reservoir.CPUKinds(), kind):
		return fail(exitUnreachable, fmt.Errorf("this CPU cannot run the %s engine", kind), "--engine auto, which takes the fastest it can: "+reservoir.CPUKinds()[0])
	}
	return nil
}

func isGPU(kind string) bool {
	_, ok := gpuProducts[kind]
	return ok
}

// newEngine opens engines of one kind, each on one thread: shards and offline
// jobs open one per core. Auto is the CPU here; a running stage has
// stageEngines.
func newEngine(kind string) pipeline.EngineFactory {
	if isGPU(kind) {
		return newGPU(kind, 0)
	}
	return func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
		return reservoir.NewCPU(net, slots, kind, 1)
	}
}
