package live

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/fleet"
	"github.com/eusn-stream/eusn-stream/internal/metrics"
	"github.com/eusn-stream/eusn-stream/internal/page"
	"github.com/eusn-stream/eusn-stream/internal/telemetry"
	"github.com/eusn-stream/eusn-stream/internal/trace"
	"github.com/eusn-stream/eusn-stream/internal/traces"
)

// closeTime is how long the end waits for the GPUs' driver.
const closeTime = 2 * time.Second

// metricsAccess returns the configured access to the metrics port.
func metricsAccess(c config.Metrics) metrics.Access {
	return metrics.Access{Cert: c.TLS.Cert, Key: c.TLS.Key, ClientCA: c.TLS.CA, Users: c.Users, TokenFile: c.TokenFile, OpenHealth: c.OpenHealth, Insecure: c.Insecure}
}

// metricsFailure words why the metrics port did not open.
func metricsFailure(err error) error {
	if opErr := new(net.OpError); errors.As(err, &opErr) {
		return cli.Fail(cli.ExitUnreachable, err, "--metrics-listen with an address of this machine and a free port; port 0 chooses one")
	}
	if errors.Is(err, metrics.ErrOpen) {
		return cli.Fail(cli.ExitConfig, err, "eusn-stream secure init, which makes a certificate and a login; or metrics.insecure: true where you trust everybody in the network; or metrics.listen: 127.0.0.1:9464")
	}
	return cli.Fail(cli.ExitConfig, err, "docs/metrics.md, TLS and a login, which describes each file; eusn-stream secure init, which makes them")
}

// listenMetrics opens the metrics port. It returns nil if another process has the default address.
func listenMetrics(c config.Metrics, o metrics.Options) (*metrics.Server, error) {
	s, err := metrics.Listen(c.Listen, o)
	if taken := new(net.OpError); c.IsDefaultAddress() && errors.As(err, &taken) {
		o.Log.Info("no live page and no metrics: the default address is not free; metrics.listen sets another", "err", err)
		return nil, nil
	}
	if err != nil {
		return nil, metricsFailure(err)
	}
	return s, nil
}

// serveMetrics serves metrics, health and the live page of the stage and its companions, with the
// model's channels, until the
// returned function is called; without an address, and if the default address is in use, it
// serves nothing, and the page is nil.
func (r *stageRun) serveMetrics(channels []string) (close func(), err error) {
	c, log := r.conf, r.log
	if c.Metrics.Listen == "" {
		return func() {}, nil
	}
	o := metrics.Options{
		Counters: r.counters, Gateway: r.parts.gatewayStats(), Traces: tracesStats(r.spans), Version: cli.ReadBuildInfo().Version,
		Access: metricsAccess(c.Metrics), Alive: r.failure, Unready: r.parts.unready, Certificates: r.used, Log: log,
	}
	live := page.Start(page.Options{Counters: o.Counters, Job: c.Job, Version: o.Version, Channels: channels, Log: log})
	o.Page = live
	cards, err := telemetry.Open()
	switch {
	case err == nil:
		o.GPUs = cards
	case c.IsSet("metrics.listen"):
		log.Info("GPU metrics are not available", "err", err)
	}
	s, err := listenMetrics(c.Metrics, o)
	if s == nil {
		live.Close()
		if cards != nil {
			cards.Close()
		}
		return func() {}, err
	}
	r.live = live
	r.app.Say("metrics at %s/metrics, health at /healthz and /readyz; a live page at %s/", s.URL(), s.URL())
	return func() {
		live.Close() // otherwise the server would wait for viewers
		if err := s.Close(); err != nil {
			log.Warn("metrics server did not stop cleanly", "err", err)
		}
		if cards != nil {
			if err := inTime(cards.Close, closeTime); err != nil {
				log.Warn("GPU metrics did not stop cleanly", "err", err)
			}
		}
	}, nil
}

// failure returns the reason for a failing /healthz: only a restart of the process helps.
func (r *stageRun) failure() error {
	if s := r.embedded.Load(); s != nil && s.Err() != nil {
		return s.Err()
	}
	return r.parts.failure()
}

// tracesStats returns the statistics of traces for the metrics; nil without traces.
func tracesStats(t *traces.Traces) func() trace.Stats {
	if t == nil {
		return nil
	}
	return t.Stats
}

// attachAgain is the time between tries to connect the page.
const attachAgain = 5 * time.Second

// attach connects the page to the job's server until ctx ends, from the beginning on:
// the page helps to diagnose a stage that does not become ready.
func attach(ctx context.Context, live *page.Page, open func(ctx context.Context, name string) (*nats.Conn, jetstream.JetStream, error), job string, again time.Duration, log *slog.Logger) {
	if live == nil {
		return
	}
	for said := false; ; said = true {
		nc, js, err := open(ctx, "eusn-stream/"+job+"/page")
		if err == nil {
			live.Attach(&page.Job{JS: js, Report: func(ctx context.Context) (*fleet.Report, error) { return page.Report(ctx, nc, job) }})
			<-ctx.Done()
			live.Detach()
			nc.Close()
			return
		}
		if !said {
			log.Warn("the live page shows only this worker until it has a connection for queries; retrying", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(again):
		}
	}
}

// inTime waits for f, with a limit: a blocked driver must not prevent the program's
// end.
func inTime(f func() error, patience time.Duration) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		return fmt.Errorf("no answer within %v", patience)
	}
}
