package live

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/eusn-stream/eusn-stream/gpu/telemetry"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/metrics"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// closeTime is how long the end waits for the GPUs' driver.
const closeTime = 2 * time.Second

// metricsAccess is what the configuration says of who may ask the metrics port.
func metricsAccess(c config.Metrics) metrics.Access {
	return metrics.Access{Cert: c.TLSCert, Key: c.TLSKey, ClientCA: c.TLSClientCA, Users: c.Users, TokenFile: c.TokenFile, OpenHealth: c.OpenHealth}
}

// metricsFailure words why the metrics port did not open.
func metricsFailure(err error) error {
	if opErr := new(net.OpError); errors.As(err, &opErr) {
		return cli.Fail(cli.ExitUnreachable, err, "--metrics with an address of this machine and a free port; port 0 chooses one")
	}
	return cli.Fail(cli.ExitConfig, err, "docs/metrics.md, TLS and a login, which says what each file holds; eusn-stream config init --secure makes them")
}

// serveMetrics serves metrics and health of the stage that counts into
// counters, until the function it returns is called; nowhere where no address is
// configured.
func serveMetrics(a *cli.App, c config.Metrics, counters *pipeline.Counters, log *slog.Logger) (close func(), err error) {
	if c.Listen == "" {
		return func() {}, nil
	}
	o := metrics.Options{Counters: counters, Version: cli.ReadBuildInfo().Version, Access: metricsAccess(c), Log: log}
	cards, err := telemetry.Open()
	if err != nil {
		log.Info("no GPU metrics", "why", err)
	} else {
		o.GPUs = cards
	}
	s, err := metrics.Listen(c.Listen, o)
	if err != nil {
		if cards != nil {
			cards.Close()
		}
		return nil, metricsFailure(err)
	}
	a.Say("metrics at %s/metrics, health at /healthz and /readyz", s.URL())
	return func() {
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

// inTime waits for f, but not for ever: a driver that hangs must not keep the
// program from its end.
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
