package config

import (
	"fmt"
	"strconv"

	"github.com/eusn-stream/eusn-stream/internal/urls"
)

// Source says where a value comes from. All fields are empty for a default.
type Source struct {
	File      string
	Line      int    // in File, from 1
	Env, Flag string // names: EUSN_STAGE_ROWS, partitions
}

// String is empty, or ends in a colon and a blank.
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

// FieldError is a value that its key cannot have.
type FieldError struct {
	Key    string
	Value  string // for people: quoted unless it is a number; empty where it would not help or is secret
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

// UnknownKeyError is a key that does not exist.
type UnknownKeyError struct {
	Key     string
	Nearest string // the key that is most like it
	Source  Source
}

func (e *UnknownKeyError) Error() string {
	return fmt.Sprintf("config: %vunknown key %q, nearest is %q", e.Source, urls.Redact(e.Key), e.Nearest)
}

// FileError is what is wrong with a file as a whole, or with a place in it that
// has no key.
type FileError struct {
	File string
	Line int // from 1; 0 = not known
	Err  error
}

func (e *FileError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("config: %s: %v", e.File, e.Err)
	}
	return fmt.Sprintf("config: %s:%d: %v", e.File, e.Line, e.Err)
}

func (e *FileError) Unwrap() error { return e.Err }

// shown is a value as an error shows it.
func shown(text string) string {
	if text == "" {
		return "nothing"
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil && len(text) <= mostShown {
		return text
	}
	return strconv.Quote(cut(urls.Redact(text))) // it may be a URL
}

// mostShown bytes of a key or a value are in an error.
const mostShown = 80

func cut(text string) string {
	if len(text) > mostShown {
		return text[:mostShown] + "..."
	}
	return text
}
