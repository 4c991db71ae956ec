package names

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name, says string
	}{
		{"", ""},
		{"walking upstairs", ""},
		{"Größe/ミ\u200d", ""},
		{strings.Repeat("a", MaxBytes), ""},
		{strings.Repeat("é", MaxBytes/2) + "a", "257 bytes, want at most 256"},
		{strings.Repeat("a", 2<<20), "2097152 bytes"},
		{"a\x1b[31mb", "control character U+001B"},
		{"a\nb", "U+000A"},
		{"tab\there", "U+0009"},
		{"\x7f", "U+007F"},
		{"\u009b31m", "U+009B"},
		{"\u2028", "U+2028"},
		{"\u202eabc", "U+202E"},
		{"\xff", "not UTF-8"},
	} {
		err := Check("class name", c.name)
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%.20q: %v", c.name, err)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || len(err.Error()) > 200):
			t.Errorf("%.20q: %v, want an error of one line that says %q", c.name, err, c.says)
		}
		if err != nil && strings.ContainsFunc(err.Error(), IsControl) {
			t.Errorf("the error of %.20q holds a control character", c.name)
		}
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		in    string
		limit int
		want  string
	}{
		{"", 5, ""}, {"abcde", 5, "abcde"}, {"abcdef", 5, "ab..."}, {"ÄÖÜßÄÖ", 5, "ÄÖ..."}, {"ÄÖÜßÄ", 5, "ÄÖÜßÄ"}, {"\xff\xff\xff\xff\xff\xff", 5, "\xff\xff..."},
	} {
		if got := Cut(c.in, c.limit); got != c.want || utf8.RuneCountInString(got) > c.limit {
			t.Errorf("Cut(%q, %d) = %q, want %q", c.in, c.limit, got, c.want)
		}
	}
}
