package shard

import (
	"sync/atomic"

	"github.com/eusn-stream/eusn-stream/readout"
)

// Shadow is a readout that scores what the answering ones do, and answers nothing.
type Shadow struct {
	Name   string
	Linear *readout.Linear // of the job's features and classes
}

// shadowing are the shadows among an engine's readouts. No state and no answer
// depends on them: where the engine does not take them, they are left out.
type shadowing struct {
	wanted  atomic.Pointer[[]Shadow] // set by whoever follows the job
	have    *[]Shadow                // as wanted when it was last looked at
	shadows []scored                 // behind those that answer; none where the engine refused them
	refused error                    // why
}
