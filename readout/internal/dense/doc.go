// Package dense is the little dense linear algebra that learning a readout
// needs: matrix products, symmetric ones among them, Cholesky factorisation,
// triangular solves and the inverse of a triangle, all float64 and row-major.
// Features come as float32 and become float64, centred and scaled, while a
// product packs them, so no float64 copy of them ever exists.
//
// Everything is recursive down to small leaves and spends its time in one
// place, the tile of a product, which is assembly generated with avo by the
// program in _asm (its own module). A product is cut along the summed index
// into Blocks; both factors' parts are packed into panels as wide as a tile;
// threads take blocks of rows. See Goto and van de Geijn, Anatomy of
// High-Performance Matrix Multiplication, 2008.
//
// Results depend neither on the number of threads nor on the instruction set:
// each element of a product is one chain of fused multiply-adds along each
// Block, started at zero and then added, fused with alpha, to what was there.
// The plain tile computes the same with math.FMA; where that is not one
// instruction (old amd64, 386, wasm), it is slow.
//
// Shapes are the caller's duty: a wrong one panics, as out-of-range slice
// indices do.
package dense

// The generator prints its command line into the files; -C keeps that line
// short and the same everywhere.
//go:generate go run -C _asm . -out ../tile_amd64.s -stubs ../tile_amd64.go -pkg dense
