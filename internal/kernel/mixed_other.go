//go:build (!amd64 && !arm64) || purego

package kernel

// Mixed returns the set's kernels of kind mixed; nil if the set has none.
func (s *Set) Mixed(bool) *MixedKernels { return nil }
