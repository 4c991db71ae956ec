package engines

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/gpu"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// withoutGPU skips a test on machines with a GPU.
func withoutGPU(t *testing.T) {
	t.Helper()
	if list, err := gpu.Devices(); err == nil {
		t.Skipf("NOT CHECKED: this machine has %s", list[0].Name)
	}
}

// tiny is a network of two units.
func tiny(t *testing.T) *reservoir.Network {
	t.Helper()
	net, err := reservoir.Draw(reservoir.Spec{
		Arithmetic: reservoir.Arithmetic, Kind: reservoir.EuSN, Channels: 1, Members: 1, Units: 2, Seed: 1, Precision: reservoir.Float32,
		Features: []reservoir.Feature{reservoir.Last}, Eps: reservoir.Fixed(.1), Recurrent: reservoir.Fixed(1), Input: reservoir.Fixed(1),
	})
	if err != nil {
		t.Fatal(err)
	}
	return net
}

// Auto selects the CPU without a GPU, and reports it once.
func TestAutoWithoutGPU(t *testing.T) {
	withoutGPU(t)
	var book bytes.Buffer
	log := slog.New(slog.NewTextHandler(&book, &slog.HandlerOptions{Level: slog.LevelDebug}))
	open, fallback := ForStage("auto", 100, log)
	for range 3 {
		e, err := open(tiny(t), 4)
		if err != nil {
			t.Fatal(err)
		}
		if e.Name() != FastestCPU() {
			t.Errorf("engine %s, want %s", e.Name(), FastestCPU())
		}
		e.Close()
	}
	if s := book.String(); strings.Count(s, "\n") != 1 || !strings.Contains(s, "level=DEBUG msg=\"CPU engine in use\"") || !strings.Contains(s, "no NVIDIA driver was found") {
		t.Errorf("log is\n%swant one line for debugging, with the engine and the reason", s)
	}
	if fallback != nil {
		t.Error("a CPU engine has a fallback")
	}
}

// Without a GPU, its kernels are not mentioned.
func TestWhyCPUWithoutGPU(t *testing.T) {
	withoutGPU(t)
	if why := WhyCPU(); !strings.Contains(why, "no NVIDIA driver was found") || strings.Contains(why, "kernels") {
		t.Errorf("it says %q", why)
	}
}

// A GPU that fails while engines are opened is not used afterwards.
func TestAutoWithBadGPU(t *testing.T) {
	if FastestCPU() == "generic" {
		t.Skip("NOT CHECKED: the generic engine stands for the GPU's here, and this CPU has no other")
	}
	var book bytes.Buffer
	log := slog.New(slog.NewTextHandler(&book, nil))
	asked := 0
	gpus := func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
		if asked++; asked > 1 {
			return nil, gpuFailure(fmt.Errorf("gpu: %w", gpu.ErrSelfTest))
		}
		return cpu.New(net, slots, cpu.Options{Kind: cpu.Generic})
	}
	open := gpuOr(gpus, New("auto"), log)
	for i := range 4 {
		e, err := open(tiny(t), 4)
		if err != nil {
			t.Fatal(err)
		}
		if gpus := e.Name() == "generic"; gpus != (i == 0) {
			t.Errorf("engine %d is %s", i, e.Name())
		}
		e.Close()
	}
	if asked != 2 || strings.Count(book.String(), "\n") != 1 {
		t.Errorf("the GPU was asked %d times, want 2; log:\n%s", asked, &book)
	}
}

// An engine with different bits is reported once, and has no fallback with canonical
// bits.
func TestOtherBits(t *testing.T) {
	withoutGPU(t)
	for _, kind := range Kinds {
		var book bytes.Buffer
		first, fallback := ForStage(kind, 100, slog.New(slog.NewTextHandler(&book, nil)))
		other := kind == "gpu-3xtf32" || kind == "gpu-2xtf32"
		if n := strings.Count(book.String(), "approximate engine in use"); (n == 1) != other || n > 1 || (OtherBits(kind) != "") != other {
			t.Errorf("%s: log is\n%s", kind, &book)
		}
		if !other {
			continue
		}
		for _, open := range []pipeline.EngineFactory{first, fallback} {
			var none *gpu.UnavailableError
			if e, err := open(tiny(t), 4); !errors.As(err, &none) {
				t.Errorf("%s opens %v, %v: want UnavailableError", kind, e, err)
			}
		}
	}
}

func TestGPUFailures(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
	}{
		{&gpu.UnavailableError{Reason: errors.New("x")}, cli.ExitUnreachable},
		{fmt.Errorf("gpu: %w", gpu.ErrSelfTest), cli.ExitIntegrity},
		{fmt.Errorf("gpu: %w", gpu.ErrTF32), cli.ExitUsage},
		{&gpu.MemoryError{}, cli.ExitFailure},
	} {
		var f *cli.Failure
		if err := fmt.Errorf("pipeline: %w", gpuFailure(c.err)); !errors.As(err, &f) || f.Code != c.code || f.Next == "" {
			t.Errorf("%v: %+v, want code %d and a next step", c.err, f, c.code)
		}
	}
}

// For a mixed bank auto is a CPU engine; a GPU is used only on request, without tensor
// cores. Other networks use the requested kind.
func TestChoose(t *testing.T) {
	mixed, err := reservoir.Bank("small", 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		kind, want string
		spec       reservoir.Spec
	}{
		{"auto", string(cpu.Kinds(mixed.ForLength(10))[0]), mixed.ForLength(10)},
		{"generic", "generic", mixed.ForLength(10)},
		{"gpu", "gpu", mixed.ForLength(10)},
		{"gpu-3xtf32", "", mixed.ForLength(10)},
		{"gpu-2xtf32", "", mixed.ForLength(10)},
		{"auto", "auto", reservoir.EulerBank(1)},
		{"gpu-3xtf32", "gpu-3xtf32", reservoir.EulerBank(1)},
	} {
		got, _, err := Choose(c.kind, c.spec)
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s for a network of kind %s: %q (%v), want %q", c.kind, c.spec.Kind, got, err, c.want)
		}
	}
}
