package state

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Shape describes the properties that exchangeable states share.
type Shape struct {
	network  [sha256.Size]byte // of the model without readouts
	Words    int               // of a state row
	states   int               // per stream
	channels int               // of a sample
	timed    bool              // the times of open sequences are remembered
	front    int               // numbers in the state of the model's front end
}

// ShapeOf returns the shape of a model's states, for any readout. A different
// arithmetic (as in a record) counts as a different network.
func ShapeOf(m *reservoir.Model, arithmetic string) (Shape, error) {
	bare := *m
	bare.Readouts, bare.Training = nil, reservoir.Training{}
	print, err := bare.Fingerprint()
	if err != nil {
		return Shape{}, fmt.Errorf("pipeline: %w", err)
	}
	sh := Shape{network: sha256.Sum256([]byte(print)), Words: engine.LayoutOf(m.Network.Spec).Words, states: m.Policy.States(), channels: len(m.Channels), timed: m.Training.Rate > 0, front: m.Front.StateSize(len(m.Channels))}
	if arithmetic != "" {
		sh.network = sha256.Sum256([]byte(print + " " + arithmetic))
	}
	return sh, nil
}

// mostOfShape exceeds the words, states and channels of any model, and products of
// three such numbers do not overflow. It limits no allocation: a partition without
// streams has few bytes for any shape, and rows are read only while bytes remain.
const mostOfShape = 1 << 27

// ShapeIn reads the shape of a snapshot's states from the snapshot's bytes.
func ShapeIn(b []byte) (sh Shape, part int, err error) {
	const fixed = 8 + 4 + 32 + 4 + 8 + 8 + 16 + 1
	if len(b) < fixed {
		return sh, 0, fmt.Errorf("%w: not the state of a partition", ErrState)
	}
	le := binary.LittleEndian
	copy(sh.network[:], b[12:44])
	part = int(le.Uint32(b[44:]))
	words, states, channels, front := le.Uint32(b[64:]), le.Uint32(b[68:]), le.Uint32(b[72:]), le.Uint32(b[76:])
	if max(words, states, channels, front) > mostOfShape {
		return sh, part, fmt.Errorf("%w: states of %d words, %d per stream, %d channels, %d numbers of a front end, want at most %d of each", ErrState, words, states, channels, front, mostOfShape)
	}
	sh.Words, sh.states, sh.channels, sh.front, sh.timed = int(words), int(states), int(channels), int(front), b[80] == 1
	return sh, part, nil
}

// Identity returns the network's part of a job's model identity.
func (s Shape) Identity() wire.Identity {
	return wire.Identity{Network: hex.EncodeToString(s.network[:])[:wire.HashDigits]}
}
