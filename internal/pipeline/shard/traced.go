package shard

import (
	"time"

	"github.com/eusn-stream/eusn-stream/internal/trace"
)

// Traced is an input message whose trace is kept. It is on its way with its partition's
// answer; no state knows of it, and nothing that is compared.
type Traced struct {
	Parent  trace.Context // where its sender stands; none: the trace begins here
	Self    trace.Context // the span of its processing
	Sent    trace.Context // the span of its commit, where it has one
	Seq     uint64
	Key     string
	Bytes   int
	Stored  time.Time // by the server
	Taken   time.Time // into a batch
	From    int       // its predictions in the answer begin here
	To      int       // and end here
	Dead    string    // why it is a dead letter; empty: it is none
	Repeats bool      // it was dropped, because it had come before
}

// HasPrediction reports whether it made some of the answer's predictions [from, to).
func (t *Traced) HasPrediction(from, to int) bool { return t.From < to && from < t.To }
