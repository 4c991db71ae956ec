package live

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/pipeline/natsclient"
	"github.com/eusn-stream/eusn-stream/pipeline/natsserver"
)

// broker is the NATS server a command works with: one by URL, or an embedded
// one that lives as long as the command.
type broker struct {
	dial   func(name string) (*nats.Conn, error)
	server *natsserver.Server // nil where the server is another's
}

// openBroker starts the embedded server or makes sure that the configured one
// answers.
func openBroker(c config.Config, log *slog.Logger) (*broker, error) {
	if c.NATS.URL != "" {
		b := &broker{dial: func(name string) (*nats.Conn, error) { return natsclient.Connect(natsOptions(c.NATS, name, log)) }}
		nc, err := b.dial("eusn-stream/" + c.Job + "/probe")
		if err != nil {
			return nil, cli.Fail(cli.ExitUnreachable, err, connectHint(err, "eusn-stream doctor, with the same --nats-url or configuration")) // not the URL: it may hold a password
		}
		nc.Close()
		return b, nil
	}
	s, err := natsserver.Start(natsserver.Options{Dir: c.Server.Dir, Port: c.Server.Port, SyncAlways: c.Server.Sync == config.SyncAlways, Log: log})
	if err != nil {
		return nil, cli.Fail(cli.ExitFailure, err, fmt.Sprintf(
			"eusn-stream doctor --dir %s; choose another --dir or --port; or use a running server with --nats-url", c.Server.Dir))
	}
	return &broker{server: s, dial: func(name string) (*nats.Conn, error) { return s.Connect(name, log) }}, nil
}

// openRunning finds the server that a stage works with now: the configured one,
// or the embedded one of a stage on this machine, which belongs to its process.
func openRunning(c config.Config, log *slog.Logger) (*broker, error) {
	local := c.NATS.URL == ""
	if local {
		c.NATS.URL = fmt.Sprintf("nats://127.0.0.1:%d", c.Server.Port)
	}
	b, err := openBroker(c, log)
	var f *cli.Failure
	if local && errors.As(err, &f) {
		f.Next = "eusn-stream run --model MODEL, in another terminal"
	}
	return b, err
}

// connectHint says what a server that refused a connection wants, or other.
func connectHint(err error, other string) string {
	says := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(err.Error(), w) })
	}
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), says("nonce"):
		return "set nats.creds, nats.nkey, nats.user with nats.password, or nats.token, in the configuration or as environment variables such as EUSN_NATS_CREDS (docs/nats.md)"
	case says("unknown authority"):
		return "set nats.tls_ca or EUSN_NATS_TLS_CA to the certificate of the authority that signed the server's certificate"
	case says("certificate required", "bad certificate"):
		return "set nats.tls_cert and nats.tls_key to a client certificate from an authority that the server trusts"
	case says("not valid for any names", "doesn't contain any IP SANs", "certificate is valid for"):
		return "use a host name in --nats-url that is in the server's certificate"
	case errors.Is(err, io.EOF):
		return "set nats.tls_first: true if the server requires TLS from the first byte"
	}
	return other
}

func (b *broker) close() {
	if b.server != nil {
		b.server.Close()
	}
}
