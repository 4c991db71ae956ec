package formats

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/eusn-stream/eusn-stream/codec"
)

// messageError carries its kind without repeating it in the text.
type messageError struct {
	kind error
	text string
}

func (e *messageError) Error() string { return e.text }
func (e *messageError) Unwrap() error { return e.kind }

// malformed is about a message that breaks its format, mismatch about one that
// is not what the mapping or the model expects.
func malformed(f Format, format string, args ...any) error {
	return &messageError{codec.ErrMalformed, string(f) + ": " + fmt.Sprintf(format, args...)}
}

func mismatch(f Format, format string, args ...any) error {
	return &messageError{codec.ErrSchema, string(f) + ": " + fmt.Sprintf(format, args...)}
}

// mostShown bytes of a value are in an error.
const mostShown = 40

// short quotes the beginning of a text for a person.
func short(b []byte) string {
	if len(b) <= mostShown {
		return strconv.Quote(string(b))
	}
	b = b[:mostShown]
	for len(b) > mostShown-utf8.UTFMax && !utf8.Valid(b) { // a character that was cut
		b = b[:len(b)-1]
	}
	return strconv.Quote(string(b)) + "..."
}

// needsPolicy is what a missing value needs, in order not to make a dead letter.
const needsPolicy = "input.non_finite: hold or zero"

// missing words that a row has no value for a channel. has are what it has.
func (l *layout) missing(f Format, row, c int, has []string) error {
	name, where := l.schema.Channels[c], l.channels[c].text
	place := fmt.Sprintf("channel %q", name)
	if where != name {
		place += fmt.Sprintf(" (%s)", where)
	}
	what := "nothing"
	if len(has) > 0 {
		what = list(has)
	}
	example, empty := "NAME", ""
	switch f {
	case JSON:
		example, empty = "$.NAME", " (null where it has no value, with "+needsPolicy+")"
		if at := path(l.channels[c].steps); where == name && at != "$."+name { // a name with a dot is no path
			place += fmt.Sprintf(" (%s)", at)
		}
		if slices.Contains(has, name) { // on that path
			example = "$." + name
		}
	case CSV:
		empty = " (an empty cell where it has no value, with " + needsPolicy + ")"
	}
	return mismatch(f, "row %d has no %s, only %s: set input.channels, such as {%s: %s}, or send the channel%s", row, place, what, name, example, empty)
}

// cutShort is the beginning of a JSON value, which has no control characters.
func cutShort(b []byte) string {
	if len(b) <= mostShown {
		return string(b)
	}
	return strings.ToValidUTF8(string(b[:mostShown]), "") + "..."
}
