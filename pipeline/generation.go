package pipeline

import (
	"fmt"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/bridge"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/owner"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// ErrChanging reports a worker start while the job's number of partitions or its
// network changes.
var ErrChanging = wire.ErrChanging

// generationOf returns the generation of a worker's records, and its drain.
func generationOf(d *bridge.Drained, c Config, now wire.Resize) (uint64, *owner.Drain, error) {
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
