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

// Answer makes this process answer status requests (eusn-stream status) on a separate
// connection, until the caller calls end. If this fails, the process works without answers, and
// the log has the reason.
func Answer(ctx context.Context, dial func(ctx context.Context, name string) (*nats.Conn, error), job string, t fleet.Source, used *certs.Watch, journal *fleet.Journal, log *slog.Logger) (end func()) {
	nc, err := dial(ctx, "eusn-stream/"+job+"/status")
	if err == nil {
		var r *fleet.Responder
		if r, err = fleet.Serve(nc, fleet.Self{Job: job, Program: cli.ReadBuildInfo().Version, Source: t, Certificates: used, Journal: journal, Log: log}); err == nil {
			return r.Close
		}
		nc.Close()
	}
	log.Warn("eusn-stream status gets no answer from this process; its work continues", "err", err)
	return func() {}
}

// Uses of certificates.
const (
	UsesServer  = "server.tls.cert"
	UsesMetrics = "metrics.tls.cert"
	UsesGateway = "gateway.tls.cert"
	UsesNATS    = "nats.tls.cert"
)

// Certificates returns a process's certificates from the configuration.
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
