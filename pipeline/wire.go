package pipeline

import (
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Message headers of producers; package doc says what they mean.
const (
	HeaderSeq         = wire.HeaderSeq
	HeaderIncarnation = wire.HeaderIncarnation
	HeaderCRC         = wire.HeaderCRC
	HeaderEnd         = wire.HeaderEnd
)

// Reason is why a message became a dead letter, for counting. The dead letter
// itself says it in a sentence, with the place.
type Reason = wire.Reason

// The reasons.
const (
	ReasonKey       = wire.ReasonKey       // not UTF-8, or too long
	ReasonHeader    = wire.ReasonHeader    // a header that cannot be read
	ReasonChecksum  = wire.ReasonChecksum  // the payload is not what Eusn-Crc says
	ReasonMalformed = wire.ReasonMalformed // not a whole, consistent Arrow stream
	ReasonSchema    = wire.ReasonSchema    // readable, but not what the model expects
	ReasonValue     = wire.ReasonValue     // a sample that is missing, not finite or too large
	ReasonTime      = wire.ReasonTime      // no time where the policy needs one
	ReasonStreams   = wire.ReasonStreams   // more new streams than there is room for
	ReasonEvent     = wire.ReasonEvent     // an end event that is not one of the stage's
)
