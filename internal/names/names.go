package names

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// MaxBytes is the maximum length of a name. The longest class of the UCR and UEA archives has
// 34 bytes.
const MaxBytes = 256

// quoted is the number of characters of a name in an error.
const quoted = 40

// Check refuses an invalid name; kind describes the name, such as "class name". An empty name
// passes: the caller decides about it.
func Check(kind, name string) error {
	if len(name) > MaxBytes {
		return fmt.Errorf("%s %q has %d bytes, want at most %d", kind, Cut(name, quoted), len(name), MaxBytes)
	}
	if !utf8.ValidString(name) {
		return fmt.Errorf("%s %q is not UTF-8", kind, Cut(name, quoted))
	}
	for _, r := range name {
		if IsControl(r) {
			return fmt.Errorf("%s %q holds the control character %U, want none", kind, Cut(name, quoted), r)
		}
	}
	return nil
}

// IsControl reports whether a printed character controls the output: C0 and C1 controls (such
// as the start of an escape sequence), the line and paragraph separators, and the characters
// that change the direction of text.
func IsControl(r rune) bool {
	if r < unicode.MaxASCII {
		return r < ' '
	}
	return unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control)
}

// Cut shortens a text to at most limit characters. A shortened text ends with three dots.
func Cut(s string, limit int) string {
	const dots = "..."
	length, keep := 0, 0 // byte offsets after the characters so far, and after limit-3 of them
	for n := 0; length < len(s); n++ {
		if n == limit-len(dots) {
			keep = length
		}
		if n == limit {
			return s[:keep] + dots
		}
		_, size := utf8.DecodeRuneInString(s[length:])
		length += size
	}
	return s
}

// CheckAll requires that every name is valid, not empty and unique.
func CheckAll(kind string, list []string) error {
	found := make(map[string]bool, len(list))
	for i, n := range list {
		if err := Check(kind+" name", n); err != nil {
			return err
		}
		switch {
		case n == "":
			return fmt.Errorf("%s %d has no name", kind, i)
		case found[n]:
			return fmt.Errorf("%s name %q is given twice", kind, n)
		}
		found[n] = true
	}
	return nil
}
