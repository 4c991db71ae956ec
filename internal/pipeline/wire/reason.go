package wire

import (
	"errors"

	"github.com/eusn-stream/eusn-stream/codec"
)

// Reason is the cause of a dead letter, for counters. The dead letter itself has a full
// sentence.
type Reason uint8

// The reasons.
const (
	ReasonKey       Reason = iota // not UTF-8, or too long
	ReasonHeader                  // an unreadable header
	ReasonChecksum                // the payload does not match Eusn-Crc
	ReasonMalformed               // not a whole, consistent Arrow stream
	ReasonSchema                  // readable, but different from the model's expectation
	ReasonValue                   // a sample that is missing, not finite or too large
	ReasonTime                    // no time although the policy needs times
	ReasonStreams                 // more new streams than there is room for
	ReasonEvent                   // an invalid end event
)

// ReasonNames are the words of the reasons.
var ReasonNames = [...]string{"key", "header", "checksum", "malformed", "schema", "value", "time", "streams", "event"}

func (r Reason) String() string { return ReasonNames[r] }

// ReasonOf returns the reason of an error from a decoder or about a sample.
func ReasonOf(err error) Reason {
	switch {
	case errors.Is(err, codec.ErrMalformed):
		return ReasonMalformed
	case errors.Is(err, codec.ErrSchema):
		return ReasonSchema
	}
	return ReasonValue
}
