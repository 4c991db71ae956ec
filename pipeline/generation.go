package pipeline

import (
	"fmt"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/owner"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// ErrChanging reports a worker start while the job's number of partitions or its
// network changes.
var ErrChanging = wire.ErrChanging

// Drain limits the input that a worker answers for a job in change (package
// internal/operate).
type Drain struct {
	Partitions int    // of before
	Generation uint64 // of the records that the worker writes
	To         uint64 // the last input message to answer
	Mixed      *store.Mixed
	Source     wire.Source // of a job that reads another job's input
}

// generationOf returns the generation of a worker's records, and its drain.
func (d *Drain) generationOf(c Config, now wire.Resize) (uint64, *owner.Drain, error) {
	switch {
	case d != nil:
		return d.Generation, &owner.Drain{To: d.To}, nil
	case now.UnderWay():
		return 0, nil, fmt.Errorf("pipeline: %w", &wire.ChangeError{Job: c.Job, Change: now})
	case now.Generation > 0 && now.Partitions != c.Partitions:
		return 0, nil, fmt.Errorf("pipeline: the number of partitions of the job was changed to %d, this worker was started for %d: start it again, with stage.partitions %d or without it", now.Partitions, c.Partitions, now.Partitions)
	}
	return now.Generation, nil, nil
}
