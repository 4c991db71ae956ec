package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/certs"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/roles"
)

// Broker is the NATS server of a command: a configured URL, or an embedded server for the
// duration of the command.
type Broker struct {
	Dial     func(ctx context.Context, name string) (*nats.Conn, error)
	Embedded *natsserver.Server // nil for a server in another process
	refusals *refusalContext    // nil: refusals are only logged
}

// Open starts the embedded server, or checks that the configured server answers.
func Open(ctx context.Context, c config.Config, log *slog.Logger) (*Broker, error) {
	if c.NATS.URL != "" {
		b := new(Broker)
		b.Dial = func(ctx context.Context, name string) (*nats.Conn, error) {
			nc, err := natsclient.Connect(ctx, NATSOptions(c.NATS, name, log))
			if err == nil && b.refusals != nil {
				b.refusals.watchConnection(nc)
			}
			return nc, err
		}
		nc, err := b.Dial(ctx, "eusn-stream/"+c.Job+"/probe")
		if err != nil && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, cli.Fail(cli.ExitUnreachable, err, ConnectHint(err, "eusn-stream doctor")) // not the URL, which may contain a password
		}
		nc.Close()
		return b, nil
	}
	o, err := serverOptions(c, log)
	if err != nil {
		return nil, cli.Fail(cli.ExitConfig, err, "a users file as docs/nats.md has it, and PEM files for server.hub_tls; eusn-stream secure init, which makes users")
	}
	s, err := natsserver.Start(ctx, o)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, natsserver.ErrOpen):
		return nil, cli.Fail(cli.ExitConfig, err, "eusn-stream secure init, which makes a certificate and users; or server.listen: 127.0.0.1")
	case errors.Is(err, natsserver.ErrWeb):
		return nil, cli.Fail(cli.ExitConfig, err, "eusn-stream secure init, which makes users; or no server.websocket")
	case errors.Is(err, natsserver.ErrHub):
		return nil, cli.Fail(cli.ExitConfig, err, "server.hub such as tls://hub.example:7422, the address for leaf nodes of the center's server; docs/services.md, An edge box")
	case errors.Is(err, natsserver.ErrExpired):
		return nil, cli.Fail(cli.ExitConfig, err, "eusn-stream secure init --renew, which makes a new certificate with the same authority: nothing changes for clients")
	case err != nil:
		return nil, cli.Fail(cli.ExitFailure, err, fmt.Sprintf(
			"eusn-stream doctor --dir %s; choose another --dir or --port; or use a running server with --nats-url", c.Server.Dir))
	}
	return &Broker{Embedded: s, Dial: func(_ context.Context, name string) (*nats.Conn, error) { return s.Connect(name, log) }}, nil
}

// Open returns a named connection with JetStream. The caller closes the connection.
func (b *Broker) Open(ctx context.Context, name string) (*nats.Conn, jetstream.JetStream, error) {
	nc, err := b.Dial(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return nil, nil, err
	}
	return nc, js, nil
}

// serverOptions returns the options of the embedded server.
func serverOptions(c config.Config, log *slog.Logger) (natsserver.Options, error) {
	o := natsserver.Options{
		Dir: c.Server.Dir, Port: c.Server.Port, SyncAlways: c.Server.Sync == config.SyncAlways, Log: log,
		Host: c.Server.Listen, WebSocket: c.Server.WebSocket, Origins: originsOf(c.Server.WebSocketOrigins), Cert: c.Server.TLS.Cert, Key: c.Server.TLS.Key, ClientCA: c.Server.TLS.CA,
		Hub: c.Server.Hub, Domain: c.Job,
	}
	var err error
	if o.HubTLS, err = certs.ClientTLS(c.Server.HubTLS.CA, c.Server.HubTLS.Cert, c.Server.HubTLS.Key); err != nil {
		return o, fmt.Errorf("server.hub_tls: %w", err)
	}
	if c.Server.Users == "" {
		return o, nil
	}
	f, err := os.Open(c.Server.Users)
	if err != nil {
		return o, fmt.Errorf("server.users: %w", err)
	}
	defer f.Close()
	users, err := roles.ReadUsers(f)
	if err != nil {
		return o, fmt.Errorf("server.users: %s: %w", c.Server.Users, err)
	}
	for _, u := range users {
		r, err := roles.RightsOf(u.Role, u.Name, c.Job, c.Input.Subject)
		if err != nil {
			return o, err
		}
		o.Users = append(o.Users, natsserver.User{Name: u.Name, Password: u.Hash, Publish: r.Publish, Deny: r.Deny, Subscribe: r.Subscribe})
	}
	return o, nil
}

// originsOf splits a list at its commas.
func originsOf(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// ConnectHint returns the requirement of a server that refused a connection; fallback if
// unknown.
func ConnectHint(err error, fallback string) string {
	contains := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(err.Error(), w) })
	}
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), contains("nonce"):
		return "set nats.creds, nats.nkey, nats.user with nats.password, or nats.token, in the configuration or as environment variables such as EUSN_NATS_CREDS (docs/nats.md); for a server of secure init: set -a; . eusn-secure/operator.env"
	case contains("unknown authority"):
		return "set nats.tls.ca or EUSN_NATS_TLS_CA to the certificate of the authority that signed the server's certificate; for a server of secure init: set -a; . eusn-secure/operator.env"
	case contains("certificate required", "bad certificate"):
		return "set nats.tls.cert and nats.tls.key to a client certificate from an authority that the server trusts"
	case contains("not valid for any names", "doesn't contain any IP SANs", "certificate is valid for"):
		return "use a host name in --nats-url that is in the server's certificate"
	case errors.Is(err, io.EOF):
		return "set nats.tls_first: true if the server requires TLS from the first byte"
	}
	return fallback
}

func (b *Broker) Close() {
	if b.refusals != nil {
		b.refusals.stop()
	}
	if b.Embedded != nil {
		b.Embedded.Close()
	}
}
