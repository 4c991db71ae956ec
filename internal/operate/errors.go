package operate

import (
	"errors"
	"fmt"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// The conditions that prevent a change of a job. A change in progress is a
// *wire.ChangeError; a model other than the job's is pipeline.ErrOtherModel.
var (
	ErrNotBegun   = errors.New("no worker has begun the job yet")
	ErrMeanwhile  = errors.New("another process has changed the job meanwhile; nothing was changed here")
	ErrWorkers    = errors.New("workers of the job are running")
	ErrShared     = errors.New("several jobs read this input")
	ErrPastCut    = errors.New("the server gives keys to the new partitions already: the change must be completed")
	ErrMixed      = errors.New("a message that was stored later lies in an old partition: the servers of the cluster do not agree on the mapping yet")
	ErrUnfit      = errors.New("it cannot continue with that job's states")
	ErrActive     = errors.New("this readout answers already")
	ErrNoPrevious = errors.New("the readout that answered before is not known")
	ErrShadow     = errors.New("this readout is a shadow already")
	ErrNoShadow   = errors.New("this readout is not a shadow of the job")
	ErrShadows    = fmt.Errorf("the job has %d shadows, which is the limit", MostShadows)
)

// underWay reports an incomplete change of the job, to be completed or abandoned first.
func underWay(job string, r wire.Resize) error {
	return fmt.Errorf("pipeline: %w", &wire.ChangeError{Job: job, Change: r})
}
