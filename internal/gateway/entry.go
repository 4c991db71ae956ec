package gateway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// entryEvery is the interval of checks of the job's entry.
const entryEvery = 5 * time.Second

// ErrOtherInput reports a job with a stage that does not read the gateway's messages.
var ErrOtherInput = errors.New("the gateway and the job do not go together")

// compareJob reads the job's input format, and compares it with the gateway's messages.
// A job that has not begun has no format yet; the check repeats later.
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

// watchJob repeats the comparison: the job may begin after the gateway, have imported
// states (the first worker then decides the format), or be deleted and recreated.
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
