package codec

import (
	"errors"
	"fmt"
	"math"
)

// Kinds of errors in a message, for errors.Is.
var (
	// ErrMalformed: the bytes are not a complete, consistent Arrow IPC stream,
	// or a value breaks the format (a null stream id, a time out of range).
	ErrMalformed = errors.New("malformed message")
	// ErrSchema: a readable message that does not fit the model: a field is
	// missing or of another type, or the version is unknown.
	ErrSchema = errors.New("schema mismatch")
	// ErrNonFinite: a null, NaN or infinite sample under the policy "reject".
	ErrNonFinite = errors.New("non-finite sample")
)

// messageError has a kind that the text does not repeat.
type messageError struct {
	kind error
	text string
}

func (e *messageError) Error() string { return "codec: " + e.text }
func (e *messageError) Unwrap() error { return e.kind }

func malformed(format string, args ...any) error {
	return &messageError{ErrMalformed, fmt.Sprintf(format, args...)}
}

func mismatch(format string, args ...any) error {
	return &messageError{ErrSchema, fmt.Sprintf(format, args...)}
}

// nonFinite is the error for sample i of the message.
func (s Schema) nonFinite(i int, f float32) error {
	what := fmt.Sprint(f)
	if math.Float32bits(f) == nullBits {
		what = "null"
	}
	row, channel := i/len(s.Channels), i%len(s.Channels)
	return &messageError{ErrNonFinite, fmt.Sprintf("row %d, field %q: %s, want a finite number", row, s.Channels[channel], what)}
}
