package live_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/planttest"
)

// plant is a plant with a gateway and its data sources.
type plant struct{ *planttest.Plant }

func newPlant(t *testing.T, dir string) *plant { return &plant{planttest.New(t, dir)} }

// gateway starts the gateway, with the devices' addresses.
func (p *plant) gateway(args ...string) {
	p.T.Helper()
	p.startGateway(args...)
	p.Await("the gateway", func() bool { return p.HasLogged("gateway", "publishing to") })
}

func (p *plant) startGateway(args ...string) {
	p.KeepProgram("gateway", append([]string{"gateway", "--model", p.Model, "--nats-url", p.URL,
		"--outbox", filepath.Join(p.Dir, "outbox"), "--topics", "plant/+/sensor/+"}, args...)...)
}

// mosquitto starts the broker with the settings recommended in docs/gateway.md.
func (p *plant) mosquitto(path, port string) {
	p.T.Helper()
	conf := clitest.Write(p.T, filepath.Join(p.Dir, "mosquitto.conf"), fmt.Sprintf(`listener %s 127.0.0.1
allow_anonymous true
user root
max_queued_messages 0
max_inflight_messages 1000
persistence true
persistence_location %s/
autosave_interval 0
`, port, p.Dir))
	p.KeepOther("mosquitto", path, "-c", conf)
	p.AwaitPort(port)
}

// saved makes mosquitto write its data to the disk.
func (p *plant) saved() {
	p.T.Helper()
	db := filepath.Join(p.Dir, "mosquitto.db")
	os.Remove(db)
	if err := p.Services["mosquitto"].Signal("-USR1"); err != nil {
		p.T.Fatal(err)
	}
	p.Await("what mosquitto saves", func() bool {
		_, err := os.Stat(db)
		return err == nil
	})
}

// still returns when no more messages come into the input.
func (p *plant) still() {
	p.T.Helper()
	for last, since := uint64(0), time.Now(); time.Since(since) < time.Second; time.Sleep(50 * time.Millisecond) {
		info, err := p.InputInfo()
		if err != nil || info.State.LastSeq != last {
			since = time.Now()
		}
		if err == nil {
			last = info.State.LastSeq
		}
	}
}

// full makes the job's input refuse further messages, or accept them.
func (p *plant) full(yes bool) {
	p.T.Helper()
	p.Await("the limit of the input", func() bool {
		info, err := p.InputInfo()
		if err != nil {
			return false
		}
		c := info.Config
		c.MaxMsgs, c.Discard = -1, jetstream.DiscardNew
		if yes {
			c.MaxMsgs = max(1, int64(info.State.Msgs))
		}
		ctx, cancel := context.WithTimeout(p.T.Context(), 5*time.Second)
		defer cancel()
		_, err = p.JS.UpdateStream(ctx, c)
		return err == nil
	})
}
