package live_test

import (
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// durable are the consumers that stay while unused, with the reason.
var durable = map[string]string{
	"EUSN-ALARMS.webhook": "remembers which events were sent",
	"EUSN-ALARMS.mqtt":    "remembers which events were sent",
}

// No command and no process uses up the consumers of a NATS stream: created consumers
// end automatically, at most minutes after their command. The test records each
// creation request.
func TestConsumersEndByThemselves(t *testing.T) {
	t.Parallel()
	s := pipelinetest.Server(t, natsserver.Options{Port: natsserver.RandomPort})
	nc, _ := pipelinetest.Connect(t, s)
	calls, err := nc.SubscribeSync("$JS.API.CONSUMER.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(calls.SetPendingLimits(-1, -1), nc.Flush()); err != nil {
		t.Fatal(err)
	}
	archive, dir := clitest.ImportTiny(t, 2), t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	clitest.Must(t, "train", archive, "--output", in("m"), "--members", "2", "--units", "8")
	conf := clitest.Write(t, in("c.yaml"), "nats:\n  url: "+s.URL()+"\nstage:\n  partitions: 2\nalarms:\n  rules: {any: class a|b|c}\n  webhook: http://127.0.0.1:1/x\n  mqtt: tcp://127.0.0.1:1\n")
	start := func(text string, args ...string) {
		p := clitest.Start(t, text, append(args, "-c", conf)...)
		go func() { _, _ = io.Copy(io.Discard, p.Out) }()
	}
	start("reading sensors.*", "run", "--model", in("m"), "--json")
	start("", "tail", "--follow", "--since", "1h")
	start("", "alarms", "run")
	clitest.Must(t, "replay", archive, "--nats-url", s.URL(), "--streams", "2", "--rows", "16")
	clitest.Await(t, s.URL(), 4, 0)
	predicted := clitest.Must(t, "tail", "--since", "1h", "--json", "--nats-url", s.URL()).Lines(t)
	stream := predicted[0]["stream"].(string)
	for _, args := range [][]string{
		{"tail", "--since", "1h"}, {"status"}, {"status", "--partitions"}, {"doctor"}, {"state", "verify", "--model", in("m")}, {"state", "show", stream, "--at", "2", "--model", in("m")}, {"deadletter", "list"},
		{"record", "--output", in("record"), "--model", in("m"), "--until", "now"}, {"job", "backfill", "--model", in("m"), "--since", "1h", "--output", in("backfill.jsonl")},
		{"labels", "list"}, {"model", "list"}, {"alarms", "list"}, {"alarms", "tail", "--since", "1h"}, {"explain", "--model", in("m"), "--last", "--stream", stream},
		{"job", "trim", "--dry-run"}, {"job", "resize", "4", "--model", in("m"), "--dry-run"},
	} {
		clitest.Must(t, append(args, "--nats-url", s.URL())...)
	}
	// Without a label there is no training; all reading happens before.
	clitest.Exec(t, t.Context(), "learn", "--store", in("store"), "--model", in("m"), "--output", in("new"), "--nats-url", s.URL())
	created := map[string]int{}
	for {
		m, err := calls.NextMsg(500 * time.Millisecond)
		if err == nats.ErrTimeout {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(m.Subject, ".CREATE.") {
			continue
		}
		var asked struct {
			Stream string `json:"stream_name"`
			Config struct {
				Name      string        `json:"name"`
				Durable   string        `json:"durable_name"`
				Threshold time.Duration `json:"inactive_threshold"`
			} `json:"config"`
		}
		if err := json.Unmarshal(m.Data, &asked); err != nil {
			t.Fatalf("%s: %v", m.Subject, err)
		}
		created[asked.Stream]++
		c := asked.Config
		if c.Durable != "" && c.Threshold == 0 && durable[asked.Stream+"."+c.Durable] == "" {
			t.Errorf("%s: the durable consumer %s stays for ever", asked.Stream, c.Durable)
		}
		if c.Threshold > 5*time.Minute { // without a threshold, an ephemeral consumer stays for 5 s
			t.Errorf("%s: consumer %s stays for %v", asked.Stream, c.Name, c.Threshold)
		}
	}
	t.Logf("created: %v", created)
	for _, name := range []string{"EUSN-IN", "EUSN-OUT", "EUSN-ALARMS"} {
		if created[name] == 0 {
			t.Errorf("no consumer of %s was created: nothing is tested", name)
		}
	}
}
