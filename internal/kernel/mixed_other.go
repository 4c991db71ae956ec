//go:build (!amd64 && !arm64) || purego

package kernel

// Mixed are the set's kernels of kind mixed; nil where it has none.
func (s *Set) Mixed(bool) *MixedKernels { return nil }
