package term

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// OneField quotes a text that would be more than one field, or none, and one with characters
// that are not seen. One with a backslash is quoted, too: an escaped name and a name that is
// written so are not the same.
func OneField(s string) string {
	unlike := func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || hidden(r) || r == '\\' || r == '"'
	}
	if s == "" || !utf8.ValidString(s) || strings.ContainsFunc(s, unlike) {
		return strconv.Quote(s)
	}
	return s
}
