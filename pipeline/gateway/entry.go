package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
)

// entryEvery is the time between two looks at what a job says of itself that has not
// begun.
const entryEvery = 5 * time.Second

// ErrOtherInput is a job whose stage does not read what the gateway publishes.
var ErrOtherInput = errors.New("the gateway and the job do not go together")

// compareJob asks what the job reads, and compares it with what the gateway
// publishes. It reports whether the job says it: a job that has not begun does not.
func (g *Gateway) compareJob(ctx context.Context) (said bool, err error) {
	if g.cfg.Reads == nil {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	out, err := g.js.Stream(ctx, wire.OutputStream(g.cfg.Job))
	if err != nil {
		return false, nil // asked again
	}
	subject := wire.EntrySubject(g.cfg.Job)
	raw, err := out.GetLastMsgForSubject(ctx, subject)
	if err != nil {
		return false, nil
	}
	e, err := wire.ParseEntry(raw.Header, raw.Data, subject, raw.Sequence)
	if err == nil {
		err = g.cfg.Reads(e.Input)
	}
	if err != nil {
		return true, fmt.Errorf("gateway: job %q: %w: %w", g.cfg.Job, err, ErrOtherInput)
	}
	return e.Readout != "", nil // of imported states: the first worker says how messages are read
}

// watchJob compares again and again, until the job says what it reads.
func (g *Gateway) watchJob(ctx context.Context, wrong chan<- error) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(entryEvery):
		}
		if said, err := g.compareJob(ctx); said {
			if err != nil {
				wrong <- err
			}
			return
		}
	}
}
