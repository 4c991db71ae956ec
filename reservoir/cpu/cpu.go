package cpu

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/kernel"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Kind names an engine by its instruction set: one of Kinds.
type Kind string

// Kinds for every machine.
const (
	Auto    Kind = "auto"    // the first of Kinds
	Generic Kind = "generic" // plain Go, which defines the bits of all engines
)

// Options of an engine.
type Options struct {
	Kind    Kind // zero: Auto
	Threads int  // of a vector engine; 0: one for each CPU available to the process
}

// Kinds lists the engines of this machine that can run a network of the recipe, fastest
// first; the last is always Generic. Only some can run kind reservoir.Mixed. For an empty
// recipe Kinds lists all engines of the machine.
func Kinds(spec reservoir.Spec) []Kind {
	var kinds []Kind
	for _, s := range kernel.Levels() {
		if spec.Kind != reservoir.Mixed || mixedKernels(s, spec) != nil {
			kinds = append(kinds, Kind(s.Name))
		}
	}
	return append(kinds, Generic)
}

// New makes an engine with a pool of slots, all reset.
func New(net *reservoir.Network, slots int, o Options) (reservoir.Engine, error) {
	if o.Threads < 0 {
		return nil, fmt.Errorf("cpu: %d threads, want 0 or more", o.Threads)
	}
	kinds := Kinds(net.Spec)
	if o.Kind == "" || o.Kind == Auto {
		o.Kind = kinds[0]
	}
	set := levelOf(o.Kind)
	switch {
	case o.Kind == Generic:
		return newGeneric(net, slots)
	case set == nil:
		return nil, fmt.Errorf("cpu: no CPU engine %q on this machine, want auto or one of %s", o.Kind, joinKinds(Kinds(reservoir.Spec{})))
	case !slices.Contains(kinds, o.Kind):
		return nil, fmt.Errorf("cpu: the %s engine cannot run this network of kind %s, want auto or one of %s", o.Kind, net.Spec.Kind, joinKinds(kinds))
	}
	if o.Threads == 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	if net.Spec.Kind == reservoir.Mixed {
		return newMixedVector(net, slots, set, o.Threads)
	}
	return newVector(net, slots, set, o.Threads)
}

// levelOf is the set of kernels of a kind; nil if the machine has none.
func levelOf(kind Kind) *kernel.Set {
	for _, s := range kernel.Levels() {
		if s.Name == string(kind) {
			return s
		}
	}
	return nil
}

func joinKinds(kinds []Kind) string {
	var names []string
	for _, k := range kinds {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}
