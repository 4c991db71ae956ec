package pipeline

import (
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

const patience = pipelinetest.Patience

// The packages below have these, too.
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
