// Package cpu has the engines that run on CPUs: the engine in plain Go, which defines the
// bits of all engines, and the faster engines on vector instructions.
//
// # Files
//
//   - cpu.go: selects an engine of this machine
//   - generic.go: is the engine in plain Go
//   - step_generic.go: steps a member in plain Go
//   - step_mixed.go: steps a member of kind mixed in plain Go
//   - pool.go: holds the states of an engine
//   - memory_unix.go, memory_other.go: allocate the memory of states
//   - vector.go: is the engine on vector instructions
//   - vector_pool.go: defines what vector engines share: slots, readouts, calls
//   - vector_gang.go: runs the worker threads
//   - vector_plan.go: plans the tiles of a call
//   - vector_worker.go: advances a tile
//   - vector_tile.go: advances a tile chunk by chunk
//   - vector_member.go: packs members and selects tile shapes
//   - vector_even.go: advances tiles of equally long runs
//   - vector_single.go: advances few streams one by one
//   - vector_loops.go: contains the loops over runs, apart for speed
//   - vector_emit.go: computes features, scores and novelty where runs emit
//   - vector_mixed.go: is the vector engine of kind mixed
//   - vector_mixed_worker.go: advances tiles of kind mixed
package cpu
