package term

import (
	"strings"
	"testing"
)

// A screen shows the fitting text, and drawn text cannot control the terminal.
func TestDrawn(t *testing.T) {
	got := string(drawLines([]string{"1234567890", "a\x1b[2Jb\nc", "third", "fourth"}, 9, 3))
	want := "\x1b[H" + "12345678…\x1b[K\r\n" + `a\u001b[…` + "\x1b[K\r\n" + "third\x1b[K" + "\x1b[J"
	if got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if OpenScreen(new(strings.Builder)) != nil {
		t.Error("a screen on what is no terminal")
	}
}
