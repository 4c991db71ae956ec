package pipeline

import (
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Message headers of producers; see package doc for their meaning.
const (
	HeaderSeq         = wire.HeaderSeq
	HeaderIncarnation = wire.HeaderIncarnation
	HeaderCRC         = wire.HeaderCRC
	HeaderEnd         = wire.HeaderEnd
)
