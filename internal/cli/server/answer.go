package server

import (
	"log/slog"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/pipeline/fleet"
)

// Answer has this process say how it is (eusn-stream status), on a connection of its own,
// until the function is called that it returns. The process works without, too: then the
// log says why it does not answer.
func Answer(dial func(name string) (*nats.Conn, error), job string, t fleet.Teller, journal *fleet.Journal, log *slog.Logger) (end func()) {
	nc, err := dial("eusn-stream/" + job + "/status")
	if err == nil {
		var r *fleet.Responder
		if r, err = fleet.Serve(nc, fleet.Self{Job: job, Program: cli.ReadBuildInfo().Version, Teller: t, Journal: journal, Log: log}); err == nil {
			return r.Close
		}
		nc.Close()
	}
	log.Warn("eusn-stream status cannot ask this process how it is; its work does not depend on it", "err", err)
	return func() {}
}
