package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/urls"
)

// selectServer sets the address of an external server that no key of the configuration sets:
// NATS_URL, or else the selected context of the nats command. A configured embedded server has
// precedence.
func selectServer(a *cli.App, c *config.Config) error {
	if c.NATS.URL != "" || c.IsSet("server.dir") || c.IsSet("server.port") || c.IsSet("server.listen") {
		return nil
	}
	source := "the environment variable NATS_URL"
	if c.NATS.URL = os.Getenv("NATS_URL"); c.NATS.URL == "" {
		name, err := useContext(&c.NATS)
		if err != nil {
			return cli.Fail(cli.ExitConfig, err, "--nats-url URL; or --dir DIR, for the embedded server; or nats context unselect")
		}
		if name == "" {
			return nil
		}
		source = "the nats context " + name
	}
	a.Say("NATS server %s, of %s", urls.Redact(c.NATS.URL), source)
	return nil
}

// Need describes what a command requires of the server of a job.
type Need struct {
	Stage  bool // a running stage, because the command works until it is stopped, or publishes
	Create bool // the data directory may be new
}

// OpenJob opens the server of a job for a command: the configured server; otherwise the embedded
// server of the stage that is running on the data directory; otherwise, without a running
// stage, an embedded server on the data directory for the duration of the command. If the
// directory is not there, and no flag names it, the server is expected at the address of an
// embedded server on this machine.
func OpenJob(ctx context.Context, a *cli.App, c config.Config, need Need, log *slog.Logger) (*Broker, error) {
	dir, expected := c.Server.Dir, false
	if c.NATS.URL == "" {
		c.NATS.URL, expected = findURL(ctx, c)
	}
	stored := natsserver.HasStore(dir)
	switch {
	case c.NATS.URL != "" && !expected:
		return Open(ctx, c, log)
	case stored && need.Stage:
		return nil, cli.Fail(cli.ExitUnreachable, fmt.Errorf("no stage is running on %s", dir), startHint)
	case stored || need.Create:
		c.NATS.URL = ""
		return openStored(ctx, a, c)
	case a.Changed("dir"):
		return nil, cli.Fail(cli.ExitFailure, fmt.Errorf("%s is not the data directory of an embedded server", dir), "another --dir, the data directory of the stage; or --nats-url with the address of its server")
	}
	b, err := Open(ctx, c, log)
	var f *cli.Failure
	if errors.As(err, &f) && errors.Is(err, nats.ErrNoServers) {
		err = cli.Fail(cli.ExitUnreachable, fmt.Errorf("no stage is running here: there is no data directory %s, and no NATS server at %s", dir, c.NATS.URL), startHint)
	}
	return b, err
}

const startHint = "eusn-stream run --model MODEL, in another terminal"

// openStored opens an embedded server on a data directory without a running stage.
func openStored(ctx context.Context, a *cli.App, c config.Config) (*Broker, error) {
	c.Server.Port, c.Server.WebSocket, c.Server.Hub = natsserver.InProcess, "", ""
	b, err := Open(ctx, c, a.Logger("warn", c.Log.Format))
	var f *cli.Failure
	if errors.As(err, &f) && errors.Is(err, natsserver.ErrInUse) {
		f.Next = "the same command in a moment, if that process is starting or is a short command; a stage with server.port 0 accepts no other commands"
	} else if err == nil {
		a.Say("no stage is running: this command reads %s itself", c.Server.Dir)
	}
	return b, err
}

// StageURL returns the URL of the embedded server of a stage on this machine: the stage that is
// running on the data directory, or without this directory the address of an embedded server.
// It is empty if no stage is running on the directory.
func StageURL(ctx context.Context, c config.Config) string {
	url, _ := findURL(ctx, c)
	return url
}

// findURL is StageURL; expected reports that nothing shows that a server is there.
func findURL(ctx context.Context, c config.Config) (url string, expected bool) {
	if url = findStage(ctx, c); url != "" || natsserver.HasStore(c.Server.Dir) {
		return url, false
	}
	return localURL(c.Server), true
}

// findStage returns the URL of the embedded server of the stage that is running on the data
// directory; empty without such a stage. A server that refuses the login is running, too.
func findStage(ctx context.Context, c config.Config) (url string) {
	note, err := natsserver.ReadNote(c.Server.Dir)
	if err != nil {
		return ""
	}
	c.NATS.URL = note.URL
	nc, err := natsclient.Connect(ctx, NATSOptions(c.NATS, "eusn-stream/"+c.Job+"/find", nil))
	if err != nil {
		if errors.Is(err, nats.ErrNoServers) { // the note of a stage that crashed
			return ""
		}
		return note.URL
	}
	defer nc.Close()
	if nc.ConnectedServerId() != note.ID { // another server has the port now
		return ""
	}
	return note.URL
}

// localURL returns the URL at which the configured embedded server is expected on this machine.
func localURL(s config.Server) string {
	scheme, host := "nats", s.Listen
	if s.TLS.Cert != "" {
		scheme = "tls"
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + "://" + net.JoinHostPort(host, strconv.Itoa(s.Port))
}
