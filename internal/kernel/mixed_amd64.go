//go:build amd64 && !purego

package kernel

import (
	"unsafe"

	"github.com/eusn-stream/eusn-stream/internal/canon"
)

// Mixed returns the set's kernels of kind mixed, for the cubic or the clip; nil
// if the set has none.
func (s *Set) Mixed(cubic bool) *MixedKernels {
	kernels := [2]*MixedKernels{&mixedClipAVX2, &mixedCubicAVX2}
	if s == &setAVX512 {
		kernels = [2]*MixedKernels{&mixedClipAVX512, &mixedCubicAVX512}
	}
	if cubic {
		return kernels[1]
	}
	return kernels[0]
}

var (
	cubicConsts, clipConsts = mixedConsts(canon.CubicLimit, canon.CubicFactor), mixedConsts(1, 0)

	mixedCubicAVX2 = MixedKernels{
		Taps:      func(s *MixedSteps) { s.Consts = &cubicConsts[0]; mixedTapsCubicAVX2((*byte)(unsafe.Pointer(s))) },
		Recurrent: func(s *MixedSteps) { s.Consts = &cubicConsts[0]; mixedRecurrentCubicAVX2((*byte)(unsafe.Pointer(s))) },
		Gather:    mixedGatherAVX2,
		Features:  mixedFeatures(&cubicConsts),
	}
	mixedClipAVX2 = MixedKernels{
		Taps:      func(s *MixedSteps) { s.Consts = &clipConsts[0]; mixedTapsClipAVX2((*byte)(unsafe.Pointer(s))) },
		Recurrent: func(s *MixedSteps) { s.Consts = &clipConsts[0]; mixedRecurrentClipAVX2((*byte)(unsafe.Pointer(s))) },
		Gather:    mixedGatherAVX2,
		Features:  mixedFeatures(&clipConsts),
	}
	mixedCubicAVX512 = MixedKernels{
		Taps:      func(s *MixedSteps) { s.Consts = &cubicConsts[0]; mixedTapsCubicAVX512((*byte)(unsafe.Pointer(s))) },
		Recurrent: func(s *MixedSteps) { s.Consts = &cubicConsts[0]; mixedRecurrentCubicAVX512((*byte)(unsafe.Pointer(s))) },
		Gather:    mixedGatherAVX2,
		Features:  mixedFeatures(&cubicConsts),
	}
	mixedClipAVX512 = MixedKernels{
		Taps:      func(s *MixedSteps) { s.Consts = &clipConsts[0]; mixedTapsClipAVX512((*byte)(unsafe.Pointer(s))) },
		Recurrent: func(s *MixedSteps) { s.Consts = &clipConsts[0]; mixedRecurrentClipAVX512((*byte)(unsafe.Pointer(s))) },
		Gather:    mixedGatherAVX2,
		Features:  mixedFeatures(&clipConsts),
	}
)

// mixedFeatures returns the features kernel with the activation of the consts.
func mixedFeatures(consts *[]float32) func(features *float32, state *uint32, count float32) {
	return func(features *float32, state *uint32, count float32) {
		high, low := reciprocal(count)
		mixedFeaturesAVX2(features, state, &(*consts)[0], count, high, low)
	}
}

// reciprocal is 1/n as two numbers of float32, to 2^-47. n is an integer below 2^16.
func reciprocal(n float32) (high, low float32) {
	r := 1 / float64(n)
	high = float32(r)
	return high, float32(r - float64(high))
}

// mixedConsts is the memory of MixedSteps.Consts for the assembly: vectors of 8:
// the least argument, the largest and the cubic's factor. Then, for AVX2, the place of
// each four bytes after packing, and the byte and the bit of each sign in four bytes
// of signs, in the order of packing. Then, for AVX-512, vectors of 16: bytes of 1, and
// the place of each four bytes after packing. Then zeros, 16 vectors of 8. Then, for
// AVX-512, four bytes of packing in the order in which unpacking makes words: of each
// 16 bytes the first half goes to one vector, the second to another.
func mixedConsts(limit, factor float32) []float32 {
	c := Aligned(6*8 + 2*16 + 16*8 + 16)
	for i := range 8 {
		c[i], c[8+i], c[16+i] = -limit, limit, factor
	}
	turn := unsafe.Slice((*uint32)(unsafe.Pointer(&c[24])), 8)
	at, bit := unsafe.Slice((*byte)(unsafe.Pointer(&c[32])), 32), unsafe.Slice((*byte)(unsafe.Pointer(&c[40])), 32)
	for i := range turn {
		turn[i] = uint32(i%2*4 + i/2)
	}
	for i := range at { // four bytes of a unit, for members 0 to 3 or 4 to 7
		at[i], bit[i] = byte(i%16/4), 1<<(i/16*4+i%4)
	}
	ones, turns := unsafe.Slice((*uint32)(unsafe.Pointer(&c[48])), 16), unsafe.Slice((*uint32)(unsafe.Pointer(&c[64])), 16)
	folds := unsafe.Slice((*uint32)(unsafe.Pointer(&c[208])), 16)
	for i := range 16 {
		ones[i], turns[i] = 0x01010101, uint32(i%4*4+i/4)
	}
	for i := range folds {
		folds[i] = turns[i%4/2*8+i/4*2+i%2]
	}
	return c
}

// The assembly's offsets are this structure's.
var _ = [1]struct{}{}[(unsafe.Offsetof(MixedSteps{}.Weights)-offsetMixedWeights)|(unsafe.Offsetof(MixedSteps{}.Values)-offsetMixedValues)|
	(unsafe.Offsetof(MixedSteps{}.State)-offsetMixedState)|(unsafe.Offsetof(MixedSteps{}.Bits)-offsetMixedBits)|(unsafe.Offsetof(MixedSteps{}.Signs)-offsetMixedSigns)|
	(unsafe.Offsetof(MixedSteps{}.Held)-offsetMixedHeld)|(unsafe.Offsetof(MixedSteps{}.Inputs)-offsetMixedInputs)|
	(unsafe.Offsetof(MixedSteps{}.Count)-offsetMixedCount)|(unsafe.Offsetof(MixedSteps{}.Number)-offsetMixedNumber)|
	(unsafe.Offsetof(MixedSteps{}.Mask)-offsetMixedMask)]
