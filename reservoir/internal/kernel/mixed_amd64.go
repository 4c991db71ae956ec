//go:build amd64 && !purego

package kernel

import (
	"unsafe"

	"github.com/eusn-stream/eusn-stream/reservoir/canon"
)

// Mixed are the set's kernels of kind mixed, for the cubic or the clip; nil where
// it has none.
func (s *Set) Mixed(cubic bool) *MixedKernels {
	if s != &setAVX2 {
		return nil
	}
	if cubic {
		return &mixedCubicAVX2
	}
	return &mixedClipAVX2
}

var (
	cubicConsts, clipConsts = mixedConsts(canon.CubicLimit, canon.CubicFactor), mixedConsts(1, 0)

	mixedCubicAVX2 = MixedKernels{
		Taps:      func(s *MixedSteps) { s.Consts = &cubicConsts[0]; mixedTapsCubicAVX2((*byte)(unsafe.Pointer(s))) },
		Recurrent: func(s *MixedSteps) { s.Consts = &cubicConsts[0]; mixedRecurrentCubicAVX2((*byte)(unsafe.Pointer(s))) },
	}
	mixedClipAVX2 = MixedKernels{
		Taps:      func(s *MixedSteps) { s.Consts = &clipConsts[0]; mixedTapsClipAVX2((*byte)(unsafe.Pointer(s))) },
		Recurrent: func(s *MixedSteps) { s.Consts = &clipConsts[0]; mixedRecurrentClipAVX2((*byte)(unsafe.Pointer(s))) },
	}
)

// mixedConsts is what the assembly reads through MixedSteps.Consts: vectors of 8:
// the least argument, the largest, the cubic's factor, and a bit for each member
// of two units.
func mixedConsts(limit, factor float32) []float32 {
	c := Aligned(4 * 8)
	for i := range 8 {
		c[i], c[8+i], c[16+i] = -limit, limit, factor
	}
	bits := unsafe.Slice((*uint16)(unsafe.Pointer(&c[24])), 16)
	for i := range bits {
		bits[i] = 1 << i
	}
	return c
}

// The assembly's offsets are this structure's.
var _ = [1]struct{}{}[(unsafe.Offsetof(MixedSteps{}.Weights)-offsetMixedWeights)|(unsafe.Offsetof(MixedSteps{}.Values)-offsetMixedValues)|
	(unsafe.Offsetof(MixedSteps{}.State)-offsetMixedState)|(unsafe.Offsetof(MixedSteps{}.Bits)-offsetMixedBits)|(unsafe.Offsetof(MixedSteps{}.Signs)-offsetMixedSigns)|
	(unsafe.Offsetof(MixedSteps{}.Held)-offsetMixedHeld)|(unsafe.Offsetof(MixedSteps{}.Inputs)-offsetMixedInputs)|
	(unsafe.Offsetof(MixedSteps{}.Count)-offsetMixedCount)|(unsafe.Offsetof(MixedSteps{}.Number)-offsetMixedNumber)|
	(unsafe.Offsetof(MixedSteps{}.Mask)-offsetMixedMask)]
