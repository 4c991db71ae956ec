package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// entryEvery is the time between two looks at what a job says of itself.
const entryEvery = 5 * time.Second

// ErrOtherInput is a job whose stage does not read what the gateway publishes.
var ErrOtherInput = errors.New("the gateway and the job do not go together")

// compareJob asks what the job reads, and compares it with what the gateway
// publishes. A job that has not begun does not say it, and is asked again later.
func (g *Gateway) compareJob(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	out, err := g.js.Stream(ctx, wire.OutputStream(g.cfg.Job))
	if err != nil {
		return nil
	}
	subject := wire.EntrySubject(g.cfg.Job)
	raw, err := out.GetLastMsgForSubject(ctx, subject)
	if err != nil {
		return nil
	}
	e, err := wire.ParseEntry(raw.Header, raw.Data, subject, raw.Sequence)
	if err == nil {
		err = g.cfg.Reads(e.Input)
	}
	if err != nil {
		return fmt.Errorf("gateway: job %q: %w: %w", g.cfg.Job, err, ErrOtherInput)
	}
	return nil
}

// watchJob compares again and again: the job may begin after the gateway, be that of
// imported states, of which the first worker says how messages are read, or be deleted
// and begun anew.
func (g *Gateway) watchJob(ctx context.Context, wrong chan<- error) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(g.cfg.entryEvery):
		}
		if err := g.compareJob(ctx); err != nil {
			wrong <- err
			return
		}
	}
}
