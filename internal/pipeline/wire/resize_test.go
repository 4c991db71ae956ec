package wire

import (
	"errors"
	"strings"
	"testing"
)

// A stored change is read as written; a job with an unknown or empty change is left
// unchanged.
func TestResizeText(t *testing.T) {
	for _, r := range []Resize{
		{}, {Generation: 2, Partitions: 5}, {Partitions: 4, To: 6, Step: ResizeDrain, After: 7, Cut: 9, Stored: 1},
		{Generation: 1, Partitions: 4, To: 4, Step: ReplaceStore, With: "green", Cut: 9, Stored: 1, Epoch: 1003, Promoted: 2},
	} {
		if got, err := parseResize(r.String()); err != nil || got != r {
			t.Errorf("%+v is read as %+v (%v)", r, got, err)
		}
	}
	for text, says := range map[string]string{
		`{"generation":0,"partitions":4,"to":4,"step":"replace-all","with":"green"}`:   "continue with the program that began it",
		`{"generation":0,"partitions":4,"to":4,"step":"replace-store"}`:                "the job to continue with",
		`{"generation":0,"partitions":4,"to":4,"step":"replace-store","with":"a.b"}`:   "the job to continue with",
		`{"generation":0,"partitions":4,"to":0,"step":"replace-store","with":"green"}`: "want numbers of partitions",
		`{"generation":0,"partitions":0}`:                                              "want numbers of partitions",
		`{`:                                                                            "Eusn-Resize",
	} {
		if _, err := parseResize(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
	for _, r := range []Resize{{To: 6, Step: ResizeDrain}, {Step: ResizeAbandon}, {With: "green", Step: ReplaceClaim}, {With: "green", Step: ReplaceAbandon}} {
		err := error(&ChangeError{"blue", r})
		if !errors.Is(err, ErrChanging) || !strings.Contains(err.Error(), "blue") || !strings.Contains(err.Error(), r.With) || r.Abandoning() != strings.Contains(err.Error(), "abandoned") {
			t.Errorf("%+v is told as %v", r, err)
		}
	}
}
