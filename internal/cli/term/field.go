package term

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// OneField quotes an empty text, a text of several fields, and a text with invisible
// characters. It also quotes a text with a backslash, to distinguish an escaped name from a
// name with the same literal text.
func OneField(s string) string {
	unlike := func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || isHidden(r) || r == '\\' || r == '"'
	}
	if s == "" || !utf8.ValidString(s) || strings.ContainsFunc(s, unlike) {
		return strconv.Quote(s)
	}
	return s
}
