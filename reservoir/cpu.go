package reservoir

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/eusn-stream/eusn-stream/reservoir/internal/kernel"
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

// NewCPU makes a CPU engine with a pool of slots, all reset: kind is one of
// CPUKinds, or "auto" for the first. A vector engine works on so many threads
// (0: one for each CPU the process may use), the generic engine on one.
func NewCPU(net *Network, slots int, kind string, threads int) (Engine, error) {
	if threads < 0 {
		return nil, fmt.Errorf("reservoir: %d threads, want 0 or more", threads)
	}
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	for _, s := range kernel.Levels() {
		if kind == "auto" || kind == s.Name {
			return newVector(net, slots, s, threads)
		}
	}
	if kind == "auto" || kind == "generic" {
		return NewGeneric(net, slots)
	}
	return nil, fmt.Errorf("reservoir: no CPU engine %q on this machine, want auto or one of %s", kind, strings.Join(CPUKinds(), ", "))
}
