package admin

import "github.com/eusn-stream/eusn-stream/internal/pipeline/store"

// Trim removes input that nobody needs any more; see its method Run.
type Trim = store.Trim

// Trimmed is what Trim has found and removed.
type Trimmed = store.Trimmed

// Need is the first input message that somebody still needs.
type Need = store.Need

// The reasons for which an input is not trimmed.
var (
	ErrNotOwner = store.ErrNotOwner // a job that reads another one's input
	ErrNoReader = store.ErrNoReader // a job that was named, and does not read the input
	ErrHistory  = store.ErrHistory  // a job that has read another history of the input
)
