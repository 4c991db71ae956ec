package engines

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/eusn-stream/eusn-stream/gpu"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// cpuInstead is the advice for an unusable GPU.
const cpuInstead = "--engine auto, which uses the CPU if there is no GPU"

// gpuFailure gives an error of package gpu its exit code and next step.
func gpuFailure(err error) error {
	var none *gpu.UnavailableError
	switch {
	case errors.As(err, &none):
		return cli.Fail(cli.ExitUnreachable, err, cpuInstead)
	case errors.Is(err, gpu.ErrTF32):
		return cli.Fail(cli.ExitUsage, err, "--engine gpu-3xtf32, or a model trained with eusn-stream train --tf32")
	case errors.Is(err, gpu.ErrSelfTest):
		return cli.Fail(cli.ExitIntegrity, err, "install another driver version; or "+cpuInstead)
	}
	return cli.Fail(cli.ExitFailure, err, cpuInstead)
}

// NewGPU opens engines on the machine's GPUs, each on the GPU with the most free memory
// that has not failed, with pools of up to maxSlots rows.
func NewGPU(kind string, maxSlots int) pipeline.EngineFactory {
	return func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
		e, err := gpu.New(net, slots, gpu.Options{MaxSlots: maxSlots, Products: gpuProducts[kind], SkipLost: true})
		if err != nil {
			return nil, gpuFailure(err)
		}
		return e, nil
	}
}

// ForStage makes the engines of a running stage, and the fallback after a loss (nil if
// impossible): another GPU if present, otherwise the CPU if it gives the same bits.
// Auto selects a GPU if present and the CPU otherwise, and reports the choice and the
// reason once.
func ForStage(kind string, maxSlots int, log *slog.Logger) (first, fallback pipeline.EngineFactory) {
	cpu := New("auto")
	if IsGPU(kind) {
		first = NewGPU(kind, maxSlots)
		if s := OtherBits(kind); s != "" {
			log.Warn("approximate engine in use", "engine", kind, "note", s)
			return first, first
		}
		return first, gpuOr(first, cpu, log)
	}
	if kind == "auto" {
		if _, err := gpu.Devices(); err != nil {
			level, none := slog.LevelInfo, new(gpu.UnavailableError)
			if errors.As(err, &none) {
				level = slog.LevelDebug
			}
			log.Log(context.Background(), level, "CPU engine in use", "engine", FastestCPU(), "why", err)
			return cpu, nil
		}
		gpus := NewGPU("gpu", maxSlots)
		return gpuOr(gpus, cpu, log), gpuOr(gpus, cpu, log)
	}
	return New(kind), nil
}

// gpuOr opens GPU engines until the first failure, and CPU engines from then on.
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
			log.Warn("GPU cannot be used; CPU engine in use instead", "engine", FastestCPU(), "why", err)
		}
		return cpu(net, slots)
	}
}
