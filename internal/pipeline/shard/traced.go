package shard

import (
	"time"

	"github.com/eusn-stream/eusn-stream/internal/trace"
)

// Traced is an input message whose trace is kept. It accompanies its partition's
// answer; neither a state nor a digest depends on it.
type Traced struct {
	Parent  trace.Context // the sender's span; none: the trace begins here
	Self    trace.Context // the span of its processing
	Sent    trace.Context // the span of its commit, if any
	Seq     uint64
	Key     string
	Bytes   int
	Stored  time.Time // by the server
	Taken   time.Time // into a batch
	From    int       // index of its first prediction in the answer
	To      int       // and end here
	Dead    string    // the reason why it is a dead letter; empty: no dead letter
	Repeats bool      // dropped as a repeated message
}

// HasPrediction reports whether the message made any of the answer's predictions [from,
// to).
func (t *Traced) HasPrediction(from, to int) bool { return t.From < to && from < t.To }
