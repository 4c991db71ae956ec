package names

import (
	"fmt"
	"unicode"
	"unicode/utf8"
)

// MaxBytes is how long a name may be. The longest class of the UCR and UEA
// archives has 34.
const MaxBytes = 256

// quoted is how many characters of a name an error shows.
const quoted = 40

// Check refuses what cannot be a name; what says of which thing, such as
// "class name". It does not mind an empty one: whether that is a name is the
// caller's to know.
func Check(what, name string) error {
	if len(name) > MaxBytes {
		return fmt.Errorf("%s %q has %d bytes, want at most %d", what, Cut(name, quoted), len(name), MaxBytes)
	}
	if !utf8.ValidString(name) {
		return fmt.Errorf("%s %q is not UTF-8", what, Cut(name, quoted))
	}
	for _, r := range name {
		if Control(r) {
			return fmt.Errorf("%s %q holds the control character %U, want none", what, Cut(name, quoted), r)
		}
	}
	return nil
}

// Control reports whether a character does something where it is printed
// instead of being seen: C0 and C1 controls (an escape sequence begins with
// one), the line and paragraph separators, and what turns the direction of the
// text around it.
func Control(r rune) bool {
	if r < unicode.MaxASCII {
		return r < ' '
	}
	return unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control)
}

// Cut shortens a text to at most that many characters. If something is left out,
// the last three of them are dots.
func Cut(s string, most int) string {
	const dots = "..."
	end, keep := 0, 0 // byte offsets behind the characters so far, and behind most-3 of them
	for n := 0; end < len(s); n++ {
		if n == most-len(dots) {
			keep = end
		}
		if n == most {
			return s[:keep] + dots
		}
		_, size := utf8.DecodeRuneInString(s[end:])
		end += size
	}
	return s
}

// CheckAll wants every name present once, each by the rule of Check.
func CheckAll(what string, list []string) error {
	seen := make(map[string]bool, len(list))
	for i, n := range list {
		if err := Check(what+" name", n); err != nil {
			return err
		}
		switch {
		case n == "":
			return fmt.Errorf("%s %d has no name", what, i)
		case seen[n]:
			return fmt.Errorf("%s name %q is given twice", what, n)
		}
		seen[n] = true
	}
	return nil
}
