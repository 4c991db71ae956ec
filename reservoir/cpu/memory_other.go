//go:build !linux && !darwin

package cpu

// stateMemory is n words of zeros, the garbage collector's.
func stateMemory(n int) ([]uint32, func(), error) { return make([]uint32, n), nil, nil }
