// Package dense is the little dense linear algebra that learning needs, of
// readouts and of trained networks: matrix products, symmetric ones among them,
// Cholesky factorisation, triangular solves and the inverse of a triangle, all
// float64 and row-major.
// Features come as float32 and become float64, centred and scaled, while a
// product packs them, so no float64 copy of them ever exists.
//
// Everything is recursive down to small leaves and spends its time in two
// kernels, the tile of a product and the solve of a panel of right-hand sides.
// They are assembly generated with avo by the program in _asm (its own
// module), for AVX-512 and for AVX2. A product is cut along the summed index
// into Blocks; both factors' parts are packed into panels as wide as a tile;
// threads take blocks of rows. See Goto and van de Geijn, Anatomy of
// High-Performance Matrix Multiplication, 2008.
//
// Results do not depend on the number of threads, nor, on amd64, on the
// instruction set: each element of a product is one chain of fused
// multiply-adds along each Block, started at zero and then added, fused with
// alpha, to what was there; a solve is one such chain and a division. The
// plain kernels compute the same with math.FMA; where that is not one
// instruction (old amd64, 386, wasm), they are slow. Other architectures may
// differ in the last bits of a factor, because gonum's dot product, used in
// the leaves, sums in another order there.
//
// Shapes are the caller's duty: a wrong one panics, as out-of-range slice
// indices do.
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

// The generator prints its command line into the files; -C keeps that line
// short and the same everywhere.
//go:generate go run -C _asm . -out ../tile_amd64.s -stubs ../tile_amd64.go -pkg dense
