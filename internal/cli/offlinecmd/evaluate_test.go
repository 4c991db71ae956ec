package offlinecmd_test

import (
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli/models"
	"github.com/eusn-stream/eusn-stream/internal/cli/offlinecmd"
)

// A label of the largest length does not break the table.
func TestConfusionOfLongLabels(t *testing.T) {
	text := offlinecmd.ConfusionText([]string{strings.Repeat("ä", 2<<20), "b"}, [][]int{{1, 2}, {3, 4}})
	if lines := strings.Split(text, "\n"); len(text) > 400 || len(lines) != 3 || strings.Contains(text, "BADWIDTH") || !strings.Contains(lines[1], "ä... ") {
		t.Errorf("%d bytes: %.400s", len(text), text)
	}
	if got := models.ListText([]string{strings.Repeat("a", 100), "b"}); got != strings.Repeat("a", models.MaxClassWidth-3)+"..., b" {
		t.Errorf("%q", got)
	}
	if got := models.ListText(make([]string, 500)); !strings.HasSuffix(got, "... (500 in all)") {
		t.Errorf("%q", got)
	}
}
