package server

import (
	"context"
	"log/slog"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/certs"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/fleet"
)

// Answer has this process say how it is (eusn-stream status), on a connection of its own,
// until the function is called that it returns. The process works without, too: then the
// log says why it does not answer.
func Answer(ctx context.Context, dial func(ctx context.Context, name string) (*nats.Conn, error), job string, t fleet.Source, used *certs.Watch, journal *fleet.Journal, log *slog.Logger) (end func()) {
	nc, err := dial(ctx, "eusn-stream/"+job+"/status")
	if err == nil {
		var r *fleet.Responder
		if r, err = fleet.Serve(nc, fleet.Self{Job: job, Program: cli.ReadBuildInfo().Version, Source: t, Certificates: used, Journal: journal, Log: log}); err == nil {
			return r.Close
		}
		nc.Close()
	}
	log.Warn("eusn-stream status cannot ask this process how it is; its work does not depend on it", "err", err)
	return func() {}
}

// What a process uses certificates for.
const (
	UsesServer  = "server.tls.cert"
	UsesMetrics = "metrics.tls.cert"
	UsesGateway = "gateway.tls.cert"
	UsesNATS    = "nats.tls.cert"
)

// Certificates are those that a process uses, of those of the configuration.
func Certificates(c config.Config, log *slog.Logger, uses ...string) *certs.Watch {
	files := map[string]string{UsesServer: c.Server.TLS.Cert, UsesMetrics: c.Metrics.TLS.Cert, UsesGateway: c.Gateway.TLS.Cert, UsesNATS: c.NATS.TLS.Cert}
	if c.Metrics.Listen == "" {
		delete(files, UsesMetrics)
	}
	if c.NATS.URL != "" {
		delete(files, UsesServer)
	}
	all := make([]certs.Use, len(uses))
	for i, use := range uses {
		all[i] = certs.Use{Key: use, File: files[use]}
	}
	return certs.NewWatch(log, all...)
}
