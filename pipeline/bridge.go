package pipeline

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/bridge"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/trace"
)

func init() {
	bridge.Prepare = func(job any) (bridge.Prepared, error) {
		own := job.(*Job)
		p, err := own.prepare()
		if err != nil {
			return nil, err
		}
		*own, p.Job = *p.Job, own
		return p, nil
	}
	bridge.Drain = func(ctx context.Context, job any, d bridge.Drained, progress func(done, all int)) error {
		return (&Worker{Job: *job.(*Job)}).drainInput(ctx, d, progress)
	}
	bridge.AdoptServer = func(ctx context.Context, js jetstream.JetStream, config any) (source wire.Source, err error) {
		c := config.(*Config)
		*c, source, err = c.onServer(ctx, js)
		return source, err
	}
	bridge.Layout = func(config any) store.Layout { return config.(Config).layout() }
	bridge.Trace = func(worker any, t trace.Tracer) { worker.(*Worker).tracer = t }
}
