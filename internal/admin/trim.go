package admin

import "github.com/eusn-stream/eusn-stream/internal/pipeline/store"

// Trim removes unneeded input; see its method Run.
type Trim = store.Trim

// Trimmed is the result of Trim.
type Trimmed = store.Trimmed

// Need is the first input message that a job or a person still needs.
type Need = store.Need

// The reasons against trimming an input.
var (
	ErrNotOwner = store.ErrNotOwner // a job that reads another job's input
	ErrNoReader = store.ErrNoReader // a named job that does not read the input
	ErrHistory  = store.ErrHistory  // a job that has read another history of the input
)
