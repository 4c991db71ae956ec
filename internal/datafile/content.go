package datafile

import (
	"context"
	"errors"
	"io/fs"
)

// ContentError is of a file that is there and can be read, but is not what it
// should be: truncated, damaged, of another kind, or against a rule of its kind.
type ContentError struct{ Err error }

func (e *ContentError) Error() string { return e.Err.Error() }
func (e *ContentError) Unwrap() error { return e.Err }

// InContent says that a file's content is at fault for err, unless err is of
// the file itself, of room, or of a stop; nil stays nil.
func InContent(err error) error {
	var file *fs.PathError
	if err == nil || errors.As(err, &file) || errors.Is(err, ErrTooLarge) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &ContentError{err}
}
