package admin

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
)

// Trim removes unneeded input; see its method Run.
type Trim = store.Trim

// Trimmed is the result of Trim.
type Trimmed = store.Trimmed

// Need is the first input message that a job or a person still needs.
type Need = store.Need

// TrimLeast is the age of input that an output needs to go back after a power failure
// (pipeline/doc.go, Delivery, step 5), plus a few minutes.
const TrimLeast = 15 * time.Minute

// RemoveOldest removes the oldest messages of a job's output or dead letters until about
// keep bytes remain, and returns their number. The last message of each partition stays.
func RemoveOldest(ctx context.Context, js jetstream.JetStream, stream string, keep uint64) (removed uint64, err error) {
	return store.RemoveOldest(ctx, js, stream, keep)
}

// The reasons against trimming an input.
var (
	ErrNotOwner = store.ErrNotOwner // a job that reads another job's input
	ErrNoReader = store.ErrNoReader // a named job that does not read the input
	ErrHistory  = store.ErrHistory  // a job that has read another history of the input
)
