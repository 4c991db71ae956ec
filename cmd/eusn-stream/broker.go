package main

import (
	"fmt"
	"log/slog"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/pipeline"
)

// broker is the NATS server a command works with: one by URL, or an embedded
// one that lives as long as the command.
type broker struct {
	dial   func(name string) (*nats.Conn, error)
	server *pipeline.Server // nil where the server is another's
}

// openBroker starts the embedded server or makes sure that the configured one
// answers.
func openBroker(c Config, log *slog.Logger) (*broker, error) {
	if c.NATS.URL != "" {
		b := &broker{dial: func(name string) (*nats.Conn, error) { return pipeline.Connect(c.NATS.options(name, log)) }}
		nc, err := b.dial("eusn-stream/" + c.Job + "/probe")
		if err != nil {
			return nil, fail(exitUnreachable, err, "eusn-stream doctor, with the same --nats-url or configuration") // not the URL: it may hold a password
		}
		nc.Close()
		return b, nil
	}
	s, err := pipeline.StartServer(pipeline.ServerOptions{Dir: c.Server.Dir, Port: c.Server.Port, SyncAlways: c.Server.Sync == syncAlways, Log: log})
	if err != nil {
		return nil, fail(exitFailure, err, fmt.Sprintf(
			"eusn-stream doctor --dir %s; another --dir or --port; or --nats-url to share a server that runs already", c.Server.Dir))
	}
	return &broker{server: s, dial: func(name string) (*nats.Conn, error) { return s.Connect(name, log) }}, nil
}

func (b *broker) close() {
	if b.server != nil {
		b.server.Close()
	}
}
