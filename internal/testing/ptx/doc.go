// Package ptx runs PTX on the CPU, for tests: the very text that is embedded
// and handed to a driver. It knows the subset of the language that clang emits
// for our kernels and refuses anything else when it reads a module.
//
// Execution is by warps of 32 threads, instruction by instruction; threads
// that part at a branch run apart until they meet again. Arithmetic is
// IEEE 754 as the PTX manual asks: fma.rn, div.rn and sqrt.rn round once,
// denormals are kept. Errors that a GPU would not report end a launch with an *Error:
//
//   - global addresses outside every allocation, shared addresses outside the
//     block's memory, addresses that are not a multiple of the access's size;
//   - reads of words nothing wrote;
//   - races: a word written by one thread and read or written by another with
//     no barrier between them, in shared memory, and in global memory also
//     across the blocks of a launch;
//   - barriers that not every thread of the block reaches, at one instruction;
//   - warp-wide instructions that not all 32 threads reach together;
//   - endless loops, by a limit on instructions.
//
// It does not model time, caches or the weak order of memory accesses between
// launches, and finds no bug of the driver's compiler. Memory is accessed by
// words of 4 bytes.
package ptx

import "fmt"

// Error is what a launch died of.
type Error struct {
	Kernel string
	Block  [3]uint32
	Thread int    // in the block; -1 where it concerns many
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
