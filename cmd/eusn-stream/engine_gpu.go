package main

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/eusn-stream/eusn-stream/gpu"
	"github.com/eusn-stream/eusn-stream/gpu/telemetry"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// cpuInstead is what to try where a GPU cannot be used.
const cpuInstead = "--engine auto, which takes the CPU where there is no GPU"

// gpuFailure gives an error of package gpu its exit code and a next step.
func gpuFailure(err error) error {
	var none *gpu.UnavailableError
	switch {
	case errors.As(err, &none):
		return fail(exitUnreachable, err, cpuInstead)
	case errors.Is(err, gpu.ErrTF32):
		return fail(exitUsage, err, "--engine gpu-3xtf32, or a model of eusn-stream offline retrain --tf32")
	case errors.Is(err, gpu.ErrSelfTest):
		return fail(exitIntegrity, err, "another driver version; "+cpuInstead)
	}
	return fail(exitFailure, err, cpuInstead)
}

// newGPU opens engines on the machine's GPUs, each on the one with the most
// free memory that has not failed, with pools of up to maxSlots rows at once.
func newGPU(kind string, maxSlots int) pipeline.EngineFactory {
	return func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
		e, err := gpu.New(net, slots, gpu.Options{MaxSlots: maxSlots, Products: gpuProducts[kind], SkipLost: true})
		if err != nil {
			return nil, gpuFailure(err)
		}
		return e, nil
	}
}

// stageEngines makes the engines of a running stage, and those that take over
// when one is lost (nil where none can be): another GPU where there is one,
// else the CPU if it gives the same bits. Auto takes a GPU where there is one
// and the CPU where not, and says once which and why.
func stageEngines(kind string, maxSlots int, log *slog.Logger) (first, fallback pipeline.EngineFactory) {
	cpu := newEngine("auto")
	if isGPU(kind) {
		first = newGPU(kind, maxSlots)
		if s := otherBits(kind); s != "" {
			log.Warn("an approximate engine computes", "engine", kind, "note", s)
			return first, first
		}
		return first, gpuOr(first, cpu, log)
	}
	if kind == "auto" {
		if _, err := gpu.Devices(); err != nil {
			log.Info("the CPU computes", "engine", reservoir.CPUKinds()[0], "why", err)
			return cpu, nil
		}
		gpus := newGPU("gpu", maxSlots)
		return gpuOr(gpus, cpu, log), gpuOr(gpus, cpu, log)
	}
	return newEngine(kind), nil
}

// gpuOr opens GPU engines until one cannot be had, and from then on the CPU's.
func gpuOr(gpus, cpu pipeline.EngineFactory, log *slog.Logger) pipeline.EngineFactory {
	var mu sync.Mutex // shards open larger pools by themselves
	failed := false
	return func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
		mu.Lock()
		defer mu.Unlock()
		if !failed {
			e, err := gpus(net, slots)
			if err == nil {
				return e, nil
			}
			failed = true
			log.Warn("the GPU cannot be used; the CPU computes instead", "engine", reservoir.CPUKinds()[0], "why", err)
		}
		return cpu(net, slots)
	}
}

// checkGPU tells what GPU the stage can use, or why none.
func checkGPU() finding {
	devices, err := gpu.Devices()
	if err != nil {
		s := fmt.Sprintf("%v; the stage runs on the CPU.", err)
		if driver, n := nvidia(); n > 0 || driver != "" {
			s = fmt.Sprintf("%d NVIDIA device(s) and driver %s are here, but: %s", n, driver, s)
		}
		return finding{"gpu", "note", s}
	}
	s := ""
	for _, d := range devices {
		s += fmt.Sprintf("%s, %.0f GiB, compute capability %s%s; ", d.Name, float64(d.Memory)/(1<<30), d.Capability, vitals(d.PCI))
	}
	return finding{"gpu", "ok", s + "the driver offers CUDA " + devices[0].DriverVersion + "."}
}

// vitals words what a GPU says of itself now; empty where it says nothing.
func vitals(pci string) string {
	r, err := telemetry.Open()
	if err != nil {
		return ""
	}
	defer r.Close()
	list, _ := r.Read() // a failure leaves it empty
	for _, v := range list {
		if v.PCI == pci {
			return fmt.Sprintf(", now %.1f GiB used, %.0f W, %.0f C", float64(v.MemoryUsed)/(1<<30), v.Power, v.Temperature)
		}
	}
	return ""
}
