// Package parts ends tests if this machine lacks an external part (a program, data, an
// instruction set): with a message, and as a failure if the list EUSN_REQUIRE
// ("numpy,avx2") names the part. Only tests import the package.
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

// Absent skips a test that lacks the part, or fails the test if the part is
// required. format reports the missing part and the way to get it.
func Absent(t testing.TB, part, format string, args ...any) {
	t.Helper()
	if Required(part) {
		t.Fatalf("EUSN_REQUIRE names "+part+": "+format, args...)
	}
	t.Skipf("NOT CHECKED, "+part+" absent: "+format, args...)
}

// Accuracy reports whether EUSN_ACCURACY, a list of data sets or "all", includes the
// accuracy test of this data set, which takes minutes for some sets.
func Accuracy(dataset string) bool {
	list := strings.Split(os.Getenv("EUSN_ACCURACY"), ",")
	return slices.Contains(list, dataset) || slices.Contains(list, "all")
}
