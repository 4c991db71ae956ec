package pipeline

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// absent skips a test whose outside part is missing here: loudly, and as a
// failure where EUSN_REQUIRE (a list) names the part.
func absent(t *testing.T, part, format string, args ...any) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("EUSN_REQUIRE"), ","), part) {
		t.Fatalf("EUSN_REQUIRE asks for "+part+": "+format, args...)
	}
	t.Skipf("NOT CHECKED, "+part+" absent: "+format, args...)
}
