package shard

import (
	"sync/atomic"

	"github.com/eusn-stream/eusn-stream/readout"
)

// Shadow is a readout that scores the same sequences as the active readouts without
// publishing predictions.
type Shadow struct {
	Name   string
	Linear *readout.Linear // of the job's features and classes
}

// shadowing manages the shadows among an engine's readouts. No state and no prediction
// depends on shadows: shadows not accepted by the engine are left out.
type shadowing struct {
	wanted  atomic.Pointer[[]Shadow] // set by the follower of the job's changes
	have    *[]Shadow                // the list at the last check
	shadows []scored                 // after the active readouts; empty if the engine refused
	refused error                    // why
}
