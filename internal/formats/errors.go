package formats

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/eusn-stream/eusn-stream/codec"
)

// messageError has a kind that its text does not repeat.
type messageError struct {
	kind error
	text string
}

func (e *messageError) Error() string { return e.text }
func (e *messageError) Unwrap() error { return e.kind }

// malformed reports a message that breaks its format, mismatch a message that does not
// fit the mapping or the model.
func malformed(f Format, format string, args ...any) error {
	return &messageError{codec.ErrMalformed, string(f) + ": " + fmt.Sprintf(format, args...)}
}

func mismatch(f Format, format string, args ...any) error {
	return &messageError{codec.ErrSchema, string(f) + ": " + fmt.Sprintf(format, args...)}
}

// mostShown is the number of bytes of a value in an error.
const mostShown = 40

// short quotes the beginning of a text.
func short(b []byte) string {
	if len(b) <= mostShown {
		return strconv.Quote(string(b))
	}
	b = b[:mostShown]
	for len(b) > mostShown-utf8.UTFMax && !utf8.Valid(b) { // a truncated character
		b = b[:len(b)-1]
	}
	return strconv.Quote(string(b)) + "..."
}

// needsPolicy is the setting that accepts missing values instead of making a dead letter.
const needsPolicy = "input.non_finite: hold or zero"

// missing returns the error of a row without a value for a channel. has are the values in
// the row.
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
		if at := path(l.channels[c].steps); where == name && at != "$."+name { // a name with a dot is not a path
			place += fmt.Sprintf(" (%s)", at)
		}
		if slices.Contains(has, name) { // at this path
			example = "$." + name
		}
	case CSV:
		empty = " (an empty cell where it has no value, with " + needsPolicy + ")"
	}
	return mismatch(f, "row %d has no %s, only %s: set input.channels, such as {%s: %s}, or send the channel%s", row, place, what, name, example, empty)
}

// cutShort returns the beginning of a JSON value, which has no control characters.
func cutShort(b []byte) string {
	if len(b) <= mostShown {
		return string(b)
	}
	return strings.ToValidUTF8(string(b[:mostShown]), "") + "..."
}
