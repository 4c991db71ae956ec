package term

import (
	"strings"
	"testing"
)

// A screen shows what fits, and nothing that is drawn controls the terminal.
func TestDrawn(t *testing.T) {
	got := string(drawn([]string{"1234567890", "a\x1b[2Jb\nc", "third", "fourth"}, 9, 3))
	want := "\x1b[H" + "12345678…\x1b[K\r\n" + `a\u001b[…` + "\x1b[K\r\n" + "third\x1b[K" + "\x1b[J"
	if got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if OpenScreen(new(strings.Builder)) != nil {
		t.Error("a screen on what is no terminal")
	}
}
