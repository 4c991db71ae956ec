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
