package kernel

import (
	"unsafe"

	"github.com/eusn-stream/eusn-stream/internal/canon"
)

// Set holds the kernels of one instruction set.
type Set struct {
	Name   string // "avx512", "avx2" or "neon"
	Vector int    // float32 lanes of a vector: a register, of NEON two
	Rows   int    // most units in a row tile
	blocks int    // most vectors of units in a row tile of Single
	kits   []int  // possible value rows between two pending vectors, ascending; nil: any number
	Wide   Shape  // two vectors of streams
	Narrow Shape  // one vector
	Tile   int    // streams of the tile whose Steps is quickest a stream: Lanes of Wide or of Narrow

	// Single advances one stream, its units in the lanes. Its value rows are
	// single numbers; states and Sums are vectors of units, padded with zeros
	// (Sums: the Kinds of one vector, consecutive).
	Single func(*Steps)

	// RingSingle is Single for a ring, whose states take one word more before
	// the first. nil if not available.
	RingSingle func(*Steps)

	// Load copies n words of Vector rows, from byte offset on, into a tile:
	// word i of row l becomes lane l of the vector i strides (in bytes) after
	// dst. Store copies back. rows has Vector pointers.
	Load  func(dst *float32, stride int, rows **uint32, offset, n int)
	Store func(src *float32, stride int, rows **uint32, offset, n int)

	// Spread copies n words to vectors stride bytes apart, the last filled up
	// with zeros; Collect is the way back.
	Spread  func(dst *float32, stride int, src *uint32, n int)
	Collect func(src *float32, stride int, dst *uint32, n int)

	// Prefetch asks for the cache lines of bytes from byte offset on in the
	// rows of lanes.
	Prefetch func(rows **uint32, lanes, offset, bytes int)

	// Within reports whether n values are numbers of magnitude at most limit.
	Within func(v *float32, n int, limit float32) bool

	Features FeatureKernels

	// Scores computes Vector columns of a readout for one stream, or for
	// Streams whose n features are stride bytes apart: dst gets one vector for
	// each, weights has one vector for each feature.
	Scores, ScoresOfMany func(dst, weights, intercept, center, features *float32, stride, n int)

	// peak does n rounds of peakChains vector multiply-adds.
	peak func(n int)
}

// FeatureKernels compute features, and the inputs of a readout with limits and of a detector.
type FeatureKernels struct {
	// Features of n units from their accumulators; count is the number of
	// samples, at least 1. Share takes counts below 2^31.
	Mean      func(dst *float32, high, low *uint32, n int, count float32)
	Share     func(dst *float32, positive *uint32, n int, count float32)
	Deviation func(dst *float32, high, low, squareHigh, squareLow *uint32, n int, count float32)

	// Apart are Scores and ScoresOfMany for columns of several readouts; nil if not
	// available. LimitedApart limits as Limited does.
	Apart, LimitedApart *ApartKernels

	// Limited writes features - center, each limited to [-limit, limit], to dst,
	// which may be features: n values of each. Limits are positive.
	Limited func(dst, features, center, limit *float32, n int)

	Novelty NoveltyKernels

	// Few is a set of this machine with smaller vectors, whose readout kernels read
	// less memory for columns that fit into one smaller vector. nil: none.
	Few *Set
}

// ApartKernels compute a vector of columns, each with its own center, for one stream or for
// Streams whose n features are stride bytes apart: dst gets one vector each. For each
// feature columns has a vector of weights, a vector of centers and, with limits, a vector of
// limits, which may be infinite.
type ApartKernels struct {
	One, Many func(dst, columns, intercept, features *float32, stride, n int)
}

// NoveltyKernels are the kernels of a detector (readout/novelty), for one stream or
// for Streams whose features are stride bytes apart.
type NoveltyKernels struct {
	// Scale puts (f - center) * scale in the place of n features f, a whole number of
	// vectors, and adds the square of feature j to float64 sum j mod 4 of the
	// four that each stream has in sums.
	Scale, ScaleMany func(sums *float64, features, center, scale *float32, stride, n int)

	Project []ProjectKernels // the widest first

	// Together adds the products of n features with TogetherColumns columns to dst, for each
	// of Streams; columns has TogetherColumns values for each feature. From column
	// TogetherDirections on, the columns in mask (bit 0 is the first) are multiplied with
	// others instead of features; the others of consecutive streams are NoveltyBlock values
	// apart. nil: none.
	Together func(dst, columns, features *float32, stride int, others *float32, mask, n int)
}

const (
	// NoveltyBlock is the number of features of all streams taken at once: few enough to stay
	// in the level 1 cache until multiplied. It is a number of whole vectors.
	NoveltyBlock = 512
	// TogetherColumns is the number of columns of Together; the first TogetherDirections
	// are always multiplied with features.
	TogetherColumns, TogetherDirections = 48, 32
)

// ProjectKernels add to dst, Axes for each stream, the products of n features with as
// many directions; axes has Axes for each feature.
type ProjectKernels struct {
	Axes      int // directions at once
	One, Many func(dst, axes, features *float32, stride, n int)
}

// Shape is a tile size and its kernels.
type Shape struct {
	Lanes int // streams
	Steps func(*Steps)
	Ring  func(*Steps)
	woven bool // Steps finishes a unit's pending vectors together
}

// Ahead reports whether prefetching the next tile's samples and states helps even
// if a tile takes many samples; see Steps.Ahead.
func (s *Set) Ahead() bool { return s.Wide.woven && s.Tile == s.Wide.Lanes }

const (
	peakChains = 12
	// Streams is how many streams ScoresOfMany takes.
	Streams = 8
	// PendingRoom is the size of Steps.Pending and Spare.
	PendingRoom = 512
	// Kinds is the number of accumulators of a unit in Steps.Sums.
	Kinds = 4
)

// Peak does at least flops floating-point operations as fast as this core can
// and returns how many: one fused multiply-add counts two.
func (s *Set) Peak(flops float64) float64 {
	const round = 2 * peakChains
	n := int(flops/float64(round*s.Vector)) + 1
	s.peak(n)
	return float64(n * round * s.Vector)
}

// Flags of Steps.
const (
	Sum      = 1 << iota // add the new state
	Positive             // count positive tanh arguments, uint32
	Max                  // largest tanh
	Square               // add the new state's square, fused
	KeepNot1             // the update's keep is not 1
)

// Steps is one call of a step kernel: Count samples of one member for one tile
// of streams. All buffers are aligned to 64 bytes and belong to the caller. A
// value row in the buffers is a Shape's Lanes float32.
//
// The assembly uses the fields by offset and stores its position in them.
type Steps struct {
	Consts  *float32
	Weights *float32
	Tiles   *rowTile
	// Cur and Next are the member's inputs followed by its states, Depth rows.
	// The kernel swaps Cur and Next with every sample, so that Cur holds the
	// newest states at the end (ring kernels use Cur only).
	Cur, Next           *float32
	CurState, NextState *float32 // their first state row
	// Inputs is the address of the first sample's transformed inputs. Not a
	// pointer, because the kernel moves the address past the last sample's
	// inputs, where the garbage collector must not find it; the caller keeps
	// the inputs alive.
	Inputs         uintptr
	InputStep      int      // bytes from one sample's inputs to the next sample's
	Select         *int     // byte offset of each input the member sees
	Selected       int      // how many, at least 1
	Depth          int      // inputs seen plus units
	Pending, Spare *float32 // PendingRoom each: a row tile's tanh arguments and the data of a look-up
	// Sums holds Kinds rows for each unit, each vector's Kinds side by side:
	// sum, positive, max, square. nil if there is none.
	Sums  *float32
	Flags int
	Gain  float32
	_     float32
	Keep  float32
	Count int // at least 1
	Units int
	// Ahead is the address of the next samples, or 0. A woven shape prefetches as
	// many of their bytes as it takes inputs, a few with each sample.
	Ahead uintptr
}

// consts is the memory of Steps.Consts for the assembly: 64-byte vectors,
// in the order of the generator; then the table by interval, 64 bytes each, for
// positive arguments, and 64 KiB further for negative arguments. The memory
// between and after the tables, up to the address of the highest word, is zero,
// and is read only for NaN.
var consts = func() []float32 {
	const table, negative = 14 * 16, 1 << 14
	c := Aligned(table + (0xffff-0x3f20)/2 + 16)
	fill := func(at int, bits uint32) {
		for i := range 16 {
			c[16*at+i] = *(*float32)(unsafe.Pointer(&bits))
		}
	}
	bits := func(f float32) uint32 { return *(*uint32)(unsafe.Pointer(&f)) }
	fill(0, 1<<31-1)
	fill(1, bits(canon.Saturation))
	fill(2, bits(canon.TanhShift))
	fill(3, ^uint32(1<<21-1))
	fill(4, bits(1))
	fill(5, 1<<31)
	fill(6, 1)
	for k, t := range canon.TanhTable {
		copy(c[16*(7+k):], t[:])
	}
	fill(13, 0x03020100) // the bytes of a lane, for NEON's table look-up
	for n := range 16 {
		i := (n + 9) % 16 // ascending: the first interval is at index 9
		for at, sign := range map[int]float32{table: 1, table + negative: -1} {
			row := c[at+16*n:]
			for k := range 4 {
				v := canon.TanhTable[k][i]
				if k%2 == 0 {
					v *= sign
				}
				row[8+k], row[12+(k+1)%4] = v, v
			}
			row[6], row[7] = sign*canon.TanhTable[4][i], canon.TanhTable[5][i]
		}
	}
	return c
}()

// Consts is the value of Steps.Consts.
func Consts() *float32 { return &consts[0] }

// Address is the value of Steps.Inputs.
func Address(v []float32) uintptr { return uintptr(unsafe.Pointer(&v[0])) }

// Aligned makes n float32, zero, aligned to 64 bytes. Go does not move
// allocated memory.
func Aligned(n int) []float32 {
	v := make([]float32, n+16)
	skip := 0
	for uintptr(unsafe.Pointer(&v[skip]))%64 != 0 {
		skip++
	}
	return v[skip : skip+n : skip+n]
}
