package watchcmd

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/discover"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// The learning uses the login of the environment if the address has none, as run does.
func TestObserveWithLoginOfEnvironment(t *testing.T) {
	t.Parallel()
	ns := pipelinetest.Serve(t, &server.Options{Host: "127.0.0.1", Port: -1, Username: "plant", Password: "secret", NoLog: true, NoSigs: true})
	for _, at := range []place{
		{scheme: schemeNATS, server: ns.ClientURL(), filter: "hall.*"},
		{scheme: schemeNATS, server: ns.ClientURL(), filter: "hall.*", user: "plant"},
	} {
		base := config.Config{}
		base.Log.Level, base.NATS.User, base.NATS.Password = "info", "plant", "secret"
		ctx, cancel := context.WithTimeout(t.Context(), pipelinetest.Patience)
		nc, err := nats.Connect(ns.ClientURL(), nats.UserInfo("plant", "secret"))
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for ctx.Err() == nil { // the subscription begins during the first messages
				nc.Publish("hall.press", []byte("1"))
				time.Sleep(10 * time.Millisecond)
			}
			nc.Close()
		}()
		var heard atomic.Bool
		err = at.observe(ctx, &cli.App{Stdout: io.Discard, Stderr: io.Discard}, base, func(m discover.Message) {
			heard.Store(m.Topic == "hall/press")
			cancel()
		})
		if cancel(); err != nil || !heard.Load() {
			t.Errorf("user %q in the address: heard %v, error %v", at.user, heard.Load(), err)
		}
	}
}
