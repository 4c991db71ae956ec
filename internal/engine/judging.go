package engine

import (
	"github.com/eusn-stream/eusn-stream/readout/novelty"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Judging is an Engine that scores detectors when runs emit, from the features of the
// readouts: the bits of novelty.Detector.Score. Novelty does the same with any other
// engine, from recomputed features.
type Judging interface {
	reservoir.Engine
	// SetDetectors replaces the detectors, none at first. They must be valid and read the
	// network's features.
	SetDetectors(detectors []*novelty.Detector) error
	// Judged returns the result of a detector, by its place, for an emitting run of the
	// last Advance, by its number among them: the score, and the input values
	// (Detector.InputValues). The run must have had Judge set. The engine owns the values,
	// until the next Advance.
	Judged(emitted, detector int) (score float32, inputs []float32)
}
