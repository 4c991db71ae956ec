//go:build (!amd64 && !arm64) || purego

package kernel

// Levels is empty: this build has no vector kernels.
func Levels() []*Set { return nil }
