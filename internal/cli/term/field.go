package term

import (
	"strconv"
	"strings"
	"unicode"
)

// OneField quotes a text that would be more than one field, or none.
func OneField(s string) string {
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return strconv.Quote(s)
	}
	return s
}
