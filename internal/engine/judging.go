package engine

import (
	"github.com/eusn-stream/eusn-stream/readout/novelty"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Judging is an Engine that scores detectors where runs emit, from the features that it
// makes for the readouts: the bits of novelty.Detector.Score. For any other there is
// Novelty, which has the features made again.
type Judging interface {
	reservoir.Engine
	// SetDetectors replaces the detectors, none at first. They must be valid and read the
	// network's features.
	SetDetectors(detectors []*novelty.Detector) error
	// Judged is what a detector, by its place, says of an emitting run of the last
	// Advance, by its number among them, which must have had Judge set: the score, and what
	// the inputs are like (Detector.InputValues). The values are the engine's, until the
	// next Advance.
	Judged(emitted, detector int) (score float32, inputs []float32)
}
