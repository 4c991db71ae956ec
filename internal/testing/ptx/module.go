package ptx

import (
	"fmt"
	"sync"
)

// Module is a parsed PTX text. A Module does not change; several launches may run at the
// same time.
type Module struct {
	Version string // of the language, "7.0"
	Target  string // "sm_80"
	kernels map[string]*Kernel
	order   []string
}

// Kernels lists the entry points in the order of the text.
func (m *Module) Kernels() []string { return m.order }

// Kernel returns an entry point; nil if the module has none with this name.
func (m *Module) Kernel(name string) *Kernel { return m.kernels[name] }

// Kernel is one entry point.
type Kernel struct {
	Name         string
	ParamBytes   int  // size of its parameter
	MaxThreads   int  // .maxntid; 0 if not specified
	StaticShared int  // bytes of shared memory that the kernel always has
	Dynamic      bool // uses the dynamic shared memory of the launch

	code      []instruction
	counts    [classes]int // registers of each class
	constants []constant
	special   []special

	mu   sync.Mutex
	free []*block // of earlier launches, for reuse
}

// class is the set of registers that holds an operand.
type class uint8

const (
	pred class = iota
	word       // 16 and 32 bits
	long       // 64 bits
	classes
)

// constant is a register that holds an immediate in every lane.
type constant struct {
	class class
	index int
	value uint64
}

// special is a register that holds %tid.x or another special value.
type special struct {
	index int
	name  string
}

// instruction is one line, ready to run. Branches, barriers and exits have no run: the
// scheduler executes them.
type instruction struct {
	run    func(w *warp, mask uint32)
	kind   kind
	guard  int // predicate register, -1 none
	not    bool
	target int // of a branch
	line   int
	text   string
}

type kind uint8

const (
	plain kind = iota
	branch
	barrier
	exit
	together // needs all 32 lanes
)

// Launch selects a kernel and its arguments.
type Launch struct {
	Kernel string
	Grid   [3]uint32
	Block  [3]uint32 // y and z must be 1
	Shared int       // bytes of dynamic shared memory
	Params []byte    // the kernel's one parameter
	// Limit bounds the instructions of the launch, each counted once per warp; 0 is
	// DefaultLimit.
	Limit int64
}

// DefaultLimit ends endless loops after some minutes.
const DefaultLimit = 1 << 33

// checkLaunch refuses launches that a driver would refuse.
func (k *Kernel) checkLaunch(l *Launch) error {
	switch {
	case l.Grid[0] < 1 || l.Grid[1] < 1 || l.Grid[2] < 1 || l.Grid[0] > 1<<31-1 || l.Grid[1] > 65535 || l.Grid[2] > 65535:
		return fmt.Errorf("ptx: %s: grid %v, want 1 to (2^31-1, 65535, 65535)", k.Name, l.Grid)
	case l.Block[0] < 1 || l.Block[0] > 1024 || l.Block[1] != 1 || l.Block[2] != 1:
		return fmt.Errorf("ptx: %s: block %v, want (1 to 1024, 1, 1)", k.Name, l.Block)
	case k.MaxThreads > 0 && int(l.Block[0]) > k.MaxThreads:
		return fmt.Errorf("ptx: %s: block of %d threads, compiled for at most %d", k.Name, l.Block[0], k.MaxThreads)
	case len(l.Params) != k.ParamBytes:
		return fmt.Errorf("ptx: %s: %d bytes of parameters, want %d", k.Name, len(l.Params), k.ParamBytes)
	case l.Shared < 0 || l.Shared > 1<<20:
		return fmt.Errorf("ptx: %s: %d bytes of shared memory, want 0 to %d", k.Name, l.Shared, 1<<20)
	}
	return nil
}
