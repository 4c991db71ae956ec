package pipeline_test

import (
	"github.com/eusn-stream/eusn-stream/internal/registry"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

const patience = pipelinetest.Patience

// The packages below define the same helpers.
var (
	testLog  = pipelinetest.Log
	mentions = pipelinetest.Mentions
	waitFor  = pipelinetest.Until
	same     = pipelinetest.Same
	sameBits = pipelinetest.SameBits
	flags    = pipelinetest.Flags
	direct   = pipelinetest.Direct
	clean    = pipelinetest.Clean
	count    = pipelinetest.Count
)

// readoutOf is the name of a readout of a model.
func readoutOf(m *reservoir.Model, l *readout.Linear) (string, error) {
	print, err := registry.Fingerprint(m, l)
	return registry.Identity(print, ""), err
}
