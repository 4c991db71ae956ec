package term

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode"
)

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ttext\nof two lines, ± and 日本": "plain\ttext\nof two lines, ± and 日本",
		"\x1b[31mred":           `\u001b[31mred`,
		"a\rb\x00\x7f":          `a\u000db\u0000\u007f`,
		"\u009b31m\u2028\u202e": `\u009b31m\u2028\u202e`,
		"\x9b1m":                "\ufffd1m",
		"cut short: \xe6\x97":   "cut short: \xe6\x97",
		"pump\u200b-1\u00ad":    `pump\u200b-1\u00ad`,
		"tag\U000e0041":         `tag\udb40\udc41`, // as in JSON
		"\ufffd\x1b":            "\ufffd\\u001b",
	} {
		var b bytes.Buffer
		if n, err := (Cleaned{&b}).Write([]byte(in)); n != len(in) || err != nil || b.String() != want {
			t.Errorf("%q becomes %q (%d, %v), want %q", in, b.String(), n, err, want)
		}
	}
}

// An escaped name is quoted, so that it differs from a name with the same literal text.
func TestOneField(t *testing.T) {
	for in, want := range map[string]string{
		"pump-3": "pump-3", "Pumpe_ä": "Pumpe_ä", "": `""`, "a b": `"a b"`, "a\x1b": `"a\x1b"`,
		"pump\u200b": `"pump\u200b"`, `pump\u200b`: `"pump\\u200b"`, "tag\U000e0041": `"tag\U000e0041"`, "\xff": `"\xff"`,
	} {
		if got := OneField(in); got != want {
			t.Errorf("%q becomes %s, want %s", in, got, want)
		}
	}
}

// Text redrawn in place is cleaned, too, although it bypasses Cleaned.
func TestProgressDoesNotSteerTheTerminal(t *testing.T) {
	const bad = "x\x1b]0;title\a\u009b31m"
	check := func(what, text string) {
		t.Helper()
		if !strings.Contains(text, `x\u001b]0;title`) || strings.ContainsFunc(strings.NewReplacer("\n", "", "\t", "", "\r\x1b[K", "").Replace(text), unicode.IsControl) {
			t.Errorf("%s: %q", what, text)
		}
	}
	var errOut bytes.Buffer
	line := NewLiveLine(&errOut, "plain")
	line.Show(bad, true)
	line.mode = "bar"
	line.Show(bad, true)
	check("a line redrawn", errOut.String())
	errOut.Reset()
	p := NewProgress(&errOut, "plain")
	p.Report(1, 10, strings.Repeat("n", 200))
	if len(p.shown) != maxPhase {
		t.Errorf("%d characters of progress, want %d", len(p.shown), maxPhase)
	}
	p.Report(1, 10, bad)
	p.start, p.last = p.start.Add(-time.Minute), p.last.Add(-time.Minute)
	p.Report(2, 10, bad)
	check("progress", errOut.String())
}
