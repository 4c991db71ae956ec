package server_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// A server that refuses a login, or lacks a requirement of a job, gives another error than an
// unreachable server.
func TestServerRefusals(t *testing.T) {
	t.Parallel()
	start := func(o server.Options) string {
		t.Helper()
		o.Host, o.Port, o.NoSigs, o.NoLog = "127.0.0.1", -1, true, true
		ns, err := server.NewServer(&o)
		if err != nil {
			t.Fatal(err)
		}
		ns.Start()
		t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
		if !ns.ReadyForConnections(20 * time.Second) {
			t.Fatal("the server does not start")
		}
		return "nats://" + ns.Addr().String()
	}
	closed := start(server.Options{Username: "u", Password: "p"})
	clitest.Exec(t, t.Context(), "status", "--partitions", "--nats-url", closed).Want(t, cli.ExitUnreachable, "Authorization Violation", "try: set nats.creds", "nats.password")
	clitest.Exec(t, t.Context(), "doctor", "--nats-url", closed).Want(t, cli.ExitUnreachable, "try: set nats.creds")
	plain := start(server.Options{})
	clitest.Exec(t, t.Context(), "deadletter", "list", "--nats-url", plain).Want(t, cli.ExitFailure, "check that JetStream is enabled on the server")
	// A job's messages must leave room for the additions of a dead letter.
	tight := start(server.Options{JetStream: true, StoreDir: t.TempDir(), MaxPayload: int32(pipeline.Defaults().MaxMessage) + 1})
	r := clitest.Exec(t, t.Context(), "doctor", "--nats-url", tight)
	r.Want(t, cli.ExitFailure, "1 problem(s) found")
	if want := fmt.Sprintf("needs a server whose max_payload is %d or more", pipeline.Config{}.MinPayload()); !strings.Contains(r.Out, want) {
		t.Errorf("%q does not say %q", r.Out, want)
	}
	// A listener that hangs up at once, like a server that requires TLS first.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	clitest.Exec(t, t.Context(), "doctor", "--nats-url", "nats://"+l.Addr().String()).Want(t, cli.ExitUnreachable, "try: set nats.tls_first")
}
