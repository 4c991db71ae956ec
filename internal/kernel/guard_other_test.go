//go:build !linux

package kernel

import "testing"

// guarded makes n values; there are no guard pages on this system.
func guarded[T any](t *testing.T, n int, atEnd bool) []T { return make([]T, n) }
