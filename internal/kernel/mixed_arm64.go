//go:build !purego

package kernel

import "github.com/eusn-stream/eusn-stream/internal/canon"

// Mixed are the set's kernels of kind mixed, for the cubic or the clip.
func (s *Set) Mixed(cubic bool) *MixedKernels {
	if cubic {
		return &mixedCubicNEON
	}
	return &mixedClipNEON
}

var (
	cubicConsts, clipConsts = mixedConsts(canon.CubicLimit, canon.CubicFactor), mixedConsts(1, 0)

	mixedCubicNEON = MixedKernels{
		Taps:      func(s *MixedSteps) { s.Consts = &cubicConsts[0]; mixedTapsCubicNEON(s) },
		Recurrent: func(s *MixedSteps) { s.Consts = &cubicConsts[0]; mixedRecurrentCubicNEON(s) },
		Gather:    mixedGatherNEON,
		Features:  mixedFeatures(&cubicConsts),
	}
	mixedClipNEON = MixedKernels{
		Taps:      func(s *MixedSteps) { s.Consts = &clipConsts[0]; mixedTapsClipNEON(s) },
		Recurrent: func(s *MixedSteps) { s.Consts = &clipConsts[0]; mixedRecurrentClipNEON(s) },
		Gather:    mixedGatherNEON,
		Features:  mixedFeatures(&clipConsts),
	}
)

// mixedFeatures returns the features kernel with the activation of the consts.
func mixedFeatures(consts *[]float32) func(features *float32, state *uint32, count float32) {
	return func(features *float32, state *uint32, count float32) {
		mixedFeaturesNEON(features, state, &(*consts)[0], count)
	}
}

// mixedConsts is the memory of MixedSteps.Consts for the assembly: vectors of
// 4: the least argument, the largest, and the cubic's factor.
func mixedConsts(limit, factor float32) []float32 {
	c := Aligned(3 * 4)
	for i := range 4 {
		c[i], c[4+i], c[8+i] = -limit, limit, factor
	}
	return c
}
