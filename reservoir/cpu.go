package reservoir

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/kernel"
)

// CPUKinds lists the CPU engines this machine can run, fastest first; the last
// is always "generic".
func CPUKinds() []string {
	var names []string
	for _, s := range kernel.Levels() {
		names = append(names, s.Name)
	}
	return append(names, "generic")
}

// CPUKindsFor lists those that can run a network of the recipe: of kind Mixed only
// some can.
func CPUKindsFor(spec Spec) []string {
	var names []string
	for _, s := range kernel.Levels() {
		if knows(s, spec) {
			names = append(names, s.Name)
		}
	}
	return append(names, "generic")
}

// knows reports whether a set has kernels for the recipe.
func knows(s *kernel.Set, spec Spec) bool {
	return spec.Kind != Mixed || mixedKernels(s, spec) != nil
}

// NewCPU makes a CPU engine with a pool of slots, all reset: kind is one of
// CPUKindsFor, or "auto" for the first. A vector engine works on that many threads
// (0: one for each CPU the process may use), the generic engine on one.
func NewCPU(net *Network, slots int, kind string, threads int) (Engine, error) {
	if threads < 0 {
		return nil, fmt.Errorf("reservoir: %d threads, want 0 or more", threads)
	}
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	for _, s := range kernel.Levels() {
		switch knows := knows(s, net.Spec); {
		case kind == s.Name && !knows:
			return nil, fmt.Errorf("reservoir: the %s engine cannot run this network of kind %s, want auto or one of %s", kind, net.Spec.Kind, strings.Join(CPUKindsFor(net.Spec), ", "))
		case kind != s.Name && (kind != "auto" || !knows):
		case net.Spec.Kind == Mixed:
			return newMixedVector(net, slots, s, threads)
		default:
			return newVector(net, slots, s, threads)
		}
	}
	if kind == "auto" || kind == "generic" {
		return NewGeneric(net, slots)
	}
	return nil, fmt.Errorf("reservoir: no CPU engine %q on this machine, want auto or one of %s", kind, strings.Join(CPUKinds(), ", "))
}

// FMAPeak measures, for about d, how many floating-point operations a second
// one thread of this machine does in the fused multiply-adds of a vector
// engine's kind (a multiply-add is two): what an engine's rate can be compared
// with. It is the median of bursts of about 0.1 ms, which a busy machine
// disturbs less than the mean.
func FMAPeak(kind string, d time.Duration) (flops float64, err error) {
	for _, s := range kernel.Levels() {
		if s.Name != kind {
			continue
		}
		var rates []float64
		for start := time.Now(); len(rates) == 0 || time.Since(start) < d; {
			at := time.Now()
			done := s.Peak(2e7)
			rates = append(rates, done/time.Since(at).Seconds())
		}
		slices.Sort(rates)
		return rates[len(rates)/2], nil
	}
	return 0, fmt.Errorf("reservoir: no vector engine %q on this machine to measure the peak of", kind)
}
