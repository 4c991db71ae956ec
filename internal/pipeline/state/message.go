package state

import (
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Message is an input message of a partition.
type Message struct {
	Seq    uint64 // in the input NATS stream
	Stored int64  // time at which the server stored the message, ns
	Key    string
	Header wire.Header
	Data   []byte        // owned by the message
	Lost   bool          // input of the partition may have been lost before this message
	Heard  time.Duration // arrival by the owner's watch; no part of the state
}
