// Package parts ends tests whose outside part (a program, data, an
// instruction set) this machine lacks: loudly, and as a failure where the list
// EUSN_REQUIRE ("numpy,avx2") names the part. For tests alone.
package parts

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Required reports whether EUSN_REQUIRE names the part.
func Required(part string) bool {
	return slices.Contains(strings.Split(os.Getenv("EUSN_REQUIRE"), ","), part)
}

// Absent skips a test for want of the part, or fails it where it is required.
// format says what is missing and how to get it.
func Absent(t testing.TB, part, format string, args ...any) {
	t.Helper()
	if Required(part) {
		t.Fatalf("EUSN_REQUIRE names "+part+": "+format, args...)
	}
	t.Skipf("NOT CHECKED, "+part+" absent: "+format, args...)
}

// Accuracy reports whether EUSN_ACCURACY, a list of data sets or "all", asks
// for the promised accuracy on this one, which takes minutes on some.
func Accuracy(dataset string) bool {
	list := strings.Split(os.Getenv("EUSN_ACCURACY"), ",")
	return slices.Contains(list, dataset) || slices.Contains(list, "all")
}
