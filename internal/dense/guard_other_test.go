//go:build !linux

package dense

import "testing"

// guarded makes n values; there are no guard pages on this system.
func guarded[T any](t *testing.T, n int) []T { return make([]T, n) }
