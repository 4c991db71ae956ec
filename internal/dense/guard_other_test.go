//go:build !linux

package dense

import "testing"

// guarded returns n values; this system has no guard pages.
func guarded[T any](t *testing.T, n int) []T { return make([]T, n) }
