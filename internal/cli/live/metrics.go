package live

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/eusn-stream/eusn-stream/gpu/telemetry"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/metrics"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// closeTime is how long the end waits for the GPUs' driver.
const closeTime = 2 * time.Second

// serveMetrics serves metrics and health of the stage that counts into
// counters, until the function it returns is called; nowhere where addr is
// empty.
func serveMetrics(a *cli.App, addr string, counters *pipeline.Counters, log *slog.Logger) (close func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	o := metrics.Options{Counters: counters, Version: cli.ReadBuildInfo().Version, Log: log}
	cards, err := telemetry.Open()
	if err != nil {
		log.Info("no GPU metrics", "why", err)
	} else {
		o.GPUs = cards
	}
	s, err := metrics.Listen(addr, o)
	if err != nil {
		if cards != nil {
			cards.Close()
		}
		return nil, cli.Fail(cli.ExitUnreachable, err, "--metrics with an address of this machine and a free port; port 0 chooses one")
	}
	a.Say("metrics at http://%s/metrics, health at /healthz and /readyz", s.Addr())
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
