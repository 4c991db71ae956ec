package live

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/certs"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/traces"
)

// tracesTime is how long the end waits for the collector of traces.
const tracesTime = 2 * time.Second

// startTraces begins to send traces, until the returned function is called; t is nil
// without a configured collector.
func startTraces(a *cli.App, c config.Config, process string, log *slog.Logger) (t *traces.Traces, end func(), err error) {
	if c.Traces.Endpoint == "" {
		return nil, func() {}, nil
	}
	secured, err := certs.ClientTLS(c.Traces.TLS.CA, c.Traces.TLS.Cert, c.Traces.TLS.Key)
	if err != nil {
		return nil, nil, cli.Fail(cli.ExitConfig, fmt.Errorf("traces.tls: %w", err), "docs/traces.md, which describes each key")
	}
	t, err = traces.Start(traces.Options{
		Endpoint: c.Traces.Endpoint, OneIn: c.Traces.SampleOneIn, Rate: c.Traces.Rate, HeadersFile: c.Traces.HeadersFile,
		TLS: secured, Job: c.Job, Process: process, Version: cli.ReadBuildInfo().Version, Log: log,
	})
	if err != nil {
		return nil, nil, cli.Fail(cli.ExitConfig, err, "docs/traces.md, which describes each key")
	}
	return t, func() {
		ctx, cancel := context.WithTimeout(context.Background(), tracesTime)
		defer cancel()
		t.Close(ctx)
	}, nil
}
