package live

import (
	"log/slog"

	"github.com/eusn-stream/eusn-stream/pipeline"
)

// limitSlots lowers MaxSlots until the states of all shards fill at most half of the
// memory. Further states are stored on the server and reloaded, so a flood of new
// streams costs time, not the process. rowBytes is the size of one state; memory 0
// means unknown.
func limitSlots(c *pipeline.Config, rowBytes int, memory uint64, log *slog.Logger) {
	d := c.WithDefaults()
	fit := memory / 2 / uint64(max(1, d.Shards)) / uint64(max(1, rowBytes))
	if memory == 0 || uint64(d.MaxSlots) <= fit {
		return
	}
	c.MaxSlots = int(max(1, fit))
	log.Warn("half of the memory holds fewer states than stage.max_slots; other states are stored on the server and loaded when needed",
		"max_slots", d.MaxSlots, "held", c.MaxSlots, "shards", d.Shards, "bytes_per_state", rowBytes, "memory", memory)
}
