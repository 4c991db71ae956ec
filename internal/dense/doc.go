// Package dense is the dense linear algebra for learning, of readouts and of trained
// networks: matrix products, including symmetric products, Cholesky factorization,
// triangular solves and the inverse of a triangle, all float64 and row-major. Features
// are float32 and become float64, centered and scaled, while a product packs them, so no
// float64 copy of the features ever exists.
//
// All algorithms are recursive down to small leaves and spend their time in two kernels,
// the tile of a product and the solve of a panel of right-hand sides. The kernels are
// assembly generated with avo by the program in _asm (a separate module), for AVX-512 and
// for AVX2. A product is cut along the summed index into Blocks; both factors' parts are
// packed into panels of the tile's width; threads take blocks of rows. See Goto and van
// de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008.
//
// Results do not depend on the number of threads, nor, on amd64, on the instruction set:
// each element of a product is one chain of fused multiply-adds along each Block, started
// at zero and then added, fused with alpha, to the previous value; a solve is one such
// chain and a division. The plain kernels compute the same with math.FMA; they are slow
// if FMA is not one instruction (old amd64, 386, wasm). Other architectures may differ in
// the last bits of a factor, because gonum's dot product, used in the leaves, has another
// order of sums there.
//
// Callers must pass correct shapes: a wrong shape panics, as out-of-range slice indices
// do.
//
// # Files
//
//   - matrix.go: defines matrices; multiplies matrices in parallel
//   - product.go: multiplies blocks that fit the caches
//   - operand.go: packs the operands of a product
//   - tile.go: defines the innermost kernel of a product in plain Go
//   - tiles_amd64.go, tiles_other.go: select the kernel: AVX-512, AVX2 or plain Go
//   - triangular.go: solves triangular systems
//   - cholesky.go: factors and inverts symmetric matrices
//   - _asm/main.go: generates the assembly kernels
package dense

// The generator prints its command line into the files; -C keeps the line short and
// independent of the folder.
//go:generate go run -C _asm . -out ../tile_amd64.s -stubs ../tile_amd64.go -pkg dense
