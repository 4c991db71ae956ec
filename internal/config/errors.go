package config

import (
	"fmt"
	"strconv"

	"github.com/eusn-stream/eusn-stream/internal/urls"
)

// Source is the source of a value. All fields are empty for a default.
type Source struct {
	File      string
	Line      int    // in File, from 1
	Env, Flag string // names: EUSN_STAGE_ROWS, partitions
}

// String returns an empty text, or a text that ends in a colon and a blank.
func (s Source) String() string {
	switch {
	case s.Flag != "":
		return "--" + s.Flag + ": "
	case s.Env != "":
		return s.Env + ": "
	case s.Line > 0:
		return fmt.Sprintf("%s:%d: ", s.File, s.Line)
	}
	return ""
}

// FieldError is the error for an invalid value of a key.
type FieldError struct {
	Key    string
	Value  string // quoted unless a number; empty if useless or secret
	Want   string
	Source Source
}

func (e *FieldError) Error() string {
	s := fmt.Sprintf("config: %vkey %s: want %s", e.Source, e.Key, e.Want)
	if e.Value != "" {
		s += ", got " + e.Value
	}
	return s
}

// UnknownKeyError is the error for an unknown key.
type UnknownKeyError struct {
	Key     string
	Nearest string // the most similar key
	Source  Source
}

func (e *UnknownKeyError) Error() string {
	return fmt.Sprintf("config: %vunknown key %q, nearest is %q", e.Source, urls.Redact(e.Key), e.Nearest)
}

// FileError is an error of a whole file, or of a place without a key.
type FileError struct {
	File string
	Line int // from 1; 0 = unknown
	Err  error
}

func (e *FileError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("config: %s: %v", e.File, e.Err)
	}
	return fmt.Sprintf("config: %s:%d: %v", e.File, e.Line, e.Err)
}

func (e *FileError) Unwrap() error { return e.Err }

// shown formats a value for an error.
func shown(text string) string {
	if text == "" {
		return "nothing"
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil && len(text) <= maxShown {
		return text
	}
	return strconv.Quote(cut(urls.Redact(text))) // the text may be a URL
}

// maxShown is the maximum length in bytes of a key or a value in an error.
const maxShown = 80

func cut(text string) string {
	if len(text) > maxShown {
		return text[:maxShown] + "..."
	}
	return text
}
