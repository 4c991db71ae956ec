// Package ptx runs PTX on the CPU, for tests: the same text that is embedded and given to
// a driver. The package supports the subset of PTX that clang emits for our kernels, and
// refuses a module with other instructions.
//
// Execution is by warps of 32 threads, instruction by instruction; threads that diverge
// at a branch run separately until they reconverge. Arithmetic is IEEE 754 as the PTX
// manual requires: fma.rn, div.rn and sqrt.rn round once, denormals are kept. Errors that
// a GPU would not report end a launch with an *Error:
//
//   - global addresses outside every allocation, shared addresses outside the
//     block's memory, addresses that are not a multiple of the access's size;
//   - reads of words that were never written;
//   - races: a word written by one thread and accessed by a second thread with
//     no barrier between the accesses, in shared memory, and in global memory also
//     across the blocks of a launch;
//   - barriers that not every thread of the block reaches, at one instruction;
//   - warp-wide instructions that not all 32 threads reach together;
//   - endless loops, by a limit on instructions.
//
// The package does not model time, caches or the weak order of memory accesses between
// launches, and finds no bugs of the driver's compiler. Memory is accessed by words of 4
// bytes.
package ptx

import "fmt"

// Error is the fault that ended a launch.
type Error struct {
	Kernel string
	Block  [3]uint32
	Thread int    // in the block; -1 if several threads are involved
	Line   int    // of the PTX text
	Text   string // the instruction
	What   string
}

func (e *Error) Error() string {
	thread := ""
	if e.Thread >= 0 {
		thread = fmt.Sprintf(" thread %d,", e.Thread)
	}
	return fmt.Sprintf("ptx: %s, block (%d,%d,%d),%s line %d (%s): %s", e.Kernel, e.Block[0], e.Block[1], e.Block[2], thread, e.Line, e.Text, e.What)
}
