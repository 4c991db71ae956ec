package datafile

import (
	"context"
	"errors"
	"io/fs"
)

// ContentError reports a readable file with wrong content: truncated, damaged, of another
// kind, or against a rule of its kind.
type ContentError struct{ Err error }

func (e *ContentError) Error() string { return e.Err.Error() }
func (e *ContentError) Unwrap() error { return e.Err }

// InContent wraps err as a ContentError, unless err reports a file system error, data
// beyond a limit, or a cancellation; nil stays nil.
func InContent(err error) error {
	var file *fs.PathError
	if err == nil || errors.As(err, &file) || errors.Is(err, ErrTooLarge) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &ContentError{err}
}
