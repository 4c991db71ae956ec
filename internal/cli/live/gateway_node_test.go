package live_test

import (
	"bufio"
	"encoding/json"
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
	"github.com/eusn-stream/eusn-stream/internal/testing/planttest"
)

// nodeDevices are devices of the mqtt client of npm, in one process.
type nodeDevices struct {
	mu   sync.Mutex
	said struct {
		Acked, Failed int
		Refusals      []string
		Done          bool
	}
	ended chan error
}

func (n *nodeDevices) acked() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.said.Acked
}

func startNodeDevices(t *testing.T, url string, all []sent) *nodeDevices {
	t.Helper()
	dir := parts.RequireModule(t, "node", "integration/gateway", "mqtt", "")
	cmd := exec.Command("node", "devices.mjs", url)
	cmd.Dir = dir
	in, out := parts.StartProgram(t, cmd)
	n := &nodeDevices{ended: make(chan error, 1)}
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			n.mu.Lock()
			json.Unmarshal(s.Bytes(), &n.said)
			n.mu.Unlock()
		}
		n.ended <- cmd.Wait()
	}()
	for _, s := range all {
		line, err := json.Marshal(map[string]any{"topic": "plant/A/sensor/" + strings.TrimPrefix(s.key, "A/"), "lines": s.lines})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := in.Write(append(line, '\n')); err != nil && err != io.ErrClosedPipe {
			t.Fatal(err)
		}
	}
	in.Close()
	return n
}

// reach returns when want lines are acknowledged.
func (n *nodeDevices) reach(p *plant, want int) {
	p.T.Helper()
	for last, since := -1, time.Now(); ; time.Sleep(5 * time.Millisecond) {
		got := n.acked()
		if got >= want {
			return
		}
		if got != last {
			last, since = got, time.Now()
		} else if time.Since(since) > planttest.Quiet {
			p.T.Fatalf("%d lines are acknowledged, want %d, and no more for %v; the logs are in %s", got, want, planttest.Quiet, p.Dir)
		}
	}
}

// TestGatewayRunNode: devices of the mqtt client of npm, MQTT 3.1.1 and 5, at the
// gateway's own broker. Gateway, stage and NATS server are killed in turn. A sample
// counts as acknowledged when publish has called back.
func TestGatewayRunNode(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT CHECKED: killed programs take seconds to begin again, -short was given")
	}
	devices, each, kills, dir := runSize(t, "EUSN_GATEWAY_NODE", 6, 200, 3)
	p := newPlant(t, dir)
	port := planttest.FreePort(t)
	p.gateway("--mqtt-listen", "127.0.0.1:"+port)
	all := makeSent(devices, each)
	n := startNodeDevices(t, "mqtt://127.0.0.1:"+port, all)
	total := devices * each
	for k := range kills {
		n.reach(p, total*(k+1)/(kills+1))
		p.Services[[]string{"gateway", "nats", "stage"}[k%3]].Kill(false)
	}
	select {
	case err := <-n.ended:
		if n.said.Acked != total || err != nil {
			t.Errorf("%d of %d lines are acknowledged, %d failed: %v (%v)", n.said.Acked, total, n.said.Failed, n.said.Refusals, err)
		}
	case <-time.After(20 * planttest.Quiet):
		t.Fatalf("%d of %d lines are acknowledged; the logs are in %s", n.acked(), total, p.Dir)
	}
	p.comparePredictions(all)
}
