package pipeline

import (
	"errors"
	"fmt"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/owner"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// ErrResizing is that of a worker that would start while the job's number of
// partitions changes.
var ErrResizing = errors.New("the job's number of partitions is being changed")

// ErrReplacing is that of a worker that would start while the job is given the
// network of another one.
var ErrReplacing = errors.New("the job is being given the network and states of another job")

// underWay words which change of a job is, and what completes it.
func underWay(r wire.Resize) error {
	if r.With != "" {
		return fmt.Errorf("%w, %q, step %s: complete that with %s", ErrReplacing, r.With, r.Step, r.Command())
	}
	return fmt.Errorf("%w from %d to %d, step %s: complete that with %s", ErrResizing, r.Partitions, r.To, r.Step, r.Command())
}

// draining makes a stage work on the partitions of before, see Resize, or up to where
// another job continues with its states, see Replace.
type draining struct {
	generation uint64
	to         uint64
	mixed      *store.Mixed // see store.Input
	source     wire.Source  // of a job that reads another one's input
}

// generationOf is of which generation a worker's records are, and what it
// drains.
func (d *draining) generationOf(c Config, now wire.Resize) (uint64, *owner.Drain, error) {
	switch {
	case d != nil:
		return d.generation, &owner.Drain{To: d.to}, nil
	case now.UnderWay():
		return 0, nil, fmt.Errorf("pipeline: %w", underWay(now))
	case now.Generation > 0 && now.Partitions != c.Partitions:
		return 0, nil, fmt.Errorf("pipeline: the job has %d partitions since eusn-stream job resize, this worker was started for %d: start it again, with stage.partitions %d or without it", now.Partitions, c.Partitions, now.Partitions)
	}
	return now.Generation, nil, nil
}
