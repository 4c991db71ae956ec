package wire

import (
	"errors"

	"github.com/eusn-stream/eusn-stream/codec"
)

// Reason is why a message became a dead letter, for counting. The dead letter
// itself says it in a sentence, with the place.
type Reason uint8

// The reasons.
const (
	ReasonKey       Reason = iota // not UTF-8, or too long
	ReasonHeader                  // a header that cannot be read
	ReasonChecksum                // the payload is not what Eusn-Crc says
	ReasonMalformed               // not a whole, consistent Arrow stream
	ReasonSchema                  // readable, but not what the model expects
	ReasonValue                   // a sample that is missing, not finite or too large
	ReasonTime                    // no time where the policy needs one
	ReasonStreams                 // more new streams than there is room for
	ReasonEvent                   // an end event that is not one of the stage's
)

// ReasonNames are the words of the reasons.
var ReasonNames = [...]string{"key", "header", "checksum", "malformed", "schema", "value", "time", "streams", "event"}

func (r Reason) String() string { return ReasonNames[r] }

// ReasonOf is what a decoder's error, or one about a sample, counts as.
func ReasonOf(err error) Reason {
	switch {
	case errors.Is(err, codec.ErrMalformed):
		return ReasonMalformed
	case errors.Is(err, codec.ErrSchema):
		return ReasonSchema
	}
	return ReasonValue
}
