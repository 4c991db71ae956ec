package pipeline

import (
	"errors"
	"fmt"

	"github.com/eusn-stream/eusn-stream/pipeline/internal/owner"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/store"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
)

// ErrResizing is that of a worker that would start while the job's number of
// partitions changes.
var ErrResizing = errors.New("the job's number of partitions is being changed")

// draining makes a stage work on the partitions of before, see Resize.
type draining struct {
	generation uint64
	to         uint64
	mixed      *store.Mixed // see store.Input
}

// generationOf is of which generation a worker's records are, and what it
// drains.
func (d *draining) generationOf(c Config, now wire.Resize) (uint64, *owner.Drain, error) {
	switch {
	case d != nil:
		return d.generation, &owner.Drain{To: d.to}, nil
	case now.Step == wire.ResizeAbandon:
		return 0, nil, fmt.Errorf("pipeline: %w from %d to %d, and that is being abandoned: complete it with eusn-stream job resize --abandon", ErrResizing, now.Partitions, now.To)
	case now.UnderWay():
		return 0, nil, fmt.Errorf("pipeline: %w from %d to %d, step %s: complete that with eusn-stream job resize --to %d", ErrResizing, now.Partitions, now.To, now.Step, now.To)
	case now.Generation > 0 && now.Partitions != c.Partitions:
		return 0, nil, fmt.Errorf("pipeline: the job has %d partitions since eusn-stream job resize, this worker was started for %d: start it again, with stage.partitions %d or without it", now.Partitions, c.Partitions, now.Partitions)
	}
	return now.Generation, nil, nil
}
