package pipeline

import (
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/readout"
)

// shadowed tracks the shadows of a worker's job.
type shadowed struct {
	now     []shard.Shadow
	warned  time.Time
	reading bool // of some of the last time
}

// shadowsOf returns the shadows in a job's entry, as far as this worker can load them;
// other reports a changed list. A missing readout is left out: the job's predictions do
// not wait for the readout.
func (f *shadowed) shadowsOf(e *wire.Entry, has *readouts, first *readout.Linear, log *slog.Logger) (now *[]shard.Shadow, other bool) {
	named, err := wire.ParseShadows(e.Shadows)
	if err != nil {
		f.warnMissing(log, "", err)
	}
	var all []shard.Shadow
	f.reading = false
	for _, s := range named {
		l, err := has.Readout(s.Readout)
		if err == nil {
			err = shard.CanFollow(first, l)
		}
		switch {
		case err == nil:
			all = append(all, shard.Shadow{Name: s.Readout, Linear: l})
		case errors.Is(err, errReading):
			f.reading = true
		default:
			f.warnMissing(log, s.Readout, err)
		}
	}
	if slices.Equal(all, f.now) {
		return nil, false
	}
	f.now = all
	return &all, true
}

func (f *shadowed) warnMissing(log *slog.Logger, readout string, err error) {
	if now := time.Now(); now.Sub(f.warned) >= store.ToldEvery {
		f.warned = now
		log.Warn("this worker cannot compute a shadow of the job and omits it; the job's own predictions do not change", "readout", readout, "err", err)
	}
}
