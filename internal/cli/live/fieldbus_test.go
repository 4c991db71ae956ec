package live_test

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/gateway/modbus"
	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/producer"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// script is a Node program with which a test communicates.
type script struct {
	t   *testing.T
	in  io.WriteCloser
	out chan string
}

// fieldbusPrograms ends a test where the programs of testdata/fieldbus cannot be run.
func fieldbusPrograms(t *testing.T) {
	t.Helper()
	parts.RequireModule(t, "fieldbus", "internal/cli/live/testdata/fieldbus", "modbus-serial", " --omit=optional --ignore-scripts")
}

func startScript(t *testing.T, name string, args ...string) *script {
	t.Helper()
	cmd := exec.Command("node", append([]string{name}, args...)...)
	cmd.Dir = filepath.Join("testdata", "fieldbus")
	in, out := parts.StartProgram(t, cmd)
	s := &script{t, in, make(chan string, 10000)}
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			s.out <- lines.Text()
		}
		close(s.out)
	}()
	return s
}

// hears waits for a line with the given beginning, and returns the rest.
func (s *script) hears(begin string) string {
	s.t.Helper()
	for end := time.After(3 * pipelinetest.Patience); ; { // the server of OPC UA makes a key first
		select {
		case line, ok := <-s.out:
			if rest, found := strings.CutPrefix(line, begin); found {
				return strings.TrimSpace(rest)
			}
			if !ok {
				s.t.Fatalf("the program has ended before it said %q", begin)
			}
		case <-end:
			s.t.Fatalf("the program does not say %q", begin)
		}
	}
}

// Foreign programs send over field buses, and the gateway is killed in the middle.
// Samples stored before and after the kill give the predictions of the same samples
// published without a gateway, bit for bit; the first prediction after the kill has the
// flag gap.
func TestFieldbus(t *testing.T) {
	t.Parallel()
	fieldbusPrograms(t)
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	clitest.Must(t, "import", clitest.TinyData(t, "Tiny", 2, 24, 40), "--output", in("archive"))
	clitest.Must(t, "train", in("archive"), "--output", in("model"), "--bank", "euler", "--members", "1", "--units", "5", "--policy", "count", "--length", "10")
	stage := clitest.Start(t, "reading sensors.*", "run", "--model", in("model"), "--dir", in("data"), "--port", "-1", "--partitions", "2")
	url := clitest.ServerURL.FindString(stage.Messages())
	direct := clitest.Start(t, "reading direct.*", "run", "-c", clitest.Write(t, in("direct.yaml"), "job: direct\nmodel: "+in("model")+"\nnats: {url: "+url+"}\ninput: {subject: direct.*}\nstage: {partitions: 2}\n"))
	defer stage.Stop(t)
	defer direct.Stop(t)

	const each, killed = 40, 25
	value := func(i, c int) float32 { return float32(math.Sin(float64(i)/4+float64(c))) * 2 }
	keys := []string{"plant/edge/press", "press", "mill"}
	nc, err := natsclient.Connect(t.Context(), natsclient.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	var items []producer.Item
	for _, key := range keys {
		it := producer.Item{Stream: key}
		for i := range each {
			it.X = append(it.X, value(i, 0), value(i, 1))
		}
		items = append(items, it)
	}
	if _, err := (producer.Publisher{Subject: "direct.*", Channels: []string{"c0", "c1"}}).Publish(t.Context(), nc, producer.FromSlice(items)); err != nil {
		t.Fatal(err)
	}
	opcua := startScript(t, "opcua.mjs")
	at := strings.Fields(opcua.hears("at"))
	mill := startScript(t, "modbus.mjs")
	file := clitest.Write(t, in("gateway.yaml"), fmt.Sprintf(`
input: {channels: {c0: Axis/X, c1: Axis/Y}}
gateway:
  sparkplug: {groups: plant}
  opcua:
    url: %s
    nodes: {press/c0: ns=%[2]s;s=Press.X, press/c1: ns=%[2]s;s=Press.Y}
    sampling: 0s
    publishing: 50ms
  modbus:
    servers: %s
    registers: {mill/c0: 3/holding:100:float32:cdab, mill/c1: 3/holding:102:float32:cdab}
`, at[0], at[1], mill.hears("at")))
	gateway := func(addr string) *process {
		return startProcess(t, "gateway", "-c", file, "--model", in("model"), "--nats-url", url, "--mqtt-listen", addr, "--outbox", in("outbox"))
	}
	g := gateway("127.0.0.1:0")
	edge := startScript(t, "sparkplug.mjs", "mqtt://"+g.addr)
	stored := func(n int) {
		t.Helper()
		for end := time.Now().Add(pipelinetest.Patience); inputRows(t, url) < n; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d samples in the input, want %d; the server of OPC UA has said %d lines, the edge node %d, the server of Modbus %d", inputRows(t, url), n, len(opcua.out), len(edge.out), len(mill.out))
			}
		}
	}
	send := func(from, to int) {
		t.Helper()
		var polled []string
		for i := from; i < to; i++ {
			polled = append(polled, fmt.Sprintf("[%v,%v]", value(i, 0), value(i, 1)))
		}
		fmt.Fprintf(mill.in, "[%s]\n", strings.Join(polled, ",")) // one for each poll, from one to the next
		for i := from; i < to; i++ {
			line := fmt.Sprintf("%d %v %v\n", 1000*(i+1), value(i, 0), value(i, 1))
			io.WriteString(edge.in, line)
			io.WriteString(opcua.in, line)
		}
		stored(len(keys) * to)
	}
	edge.hears("born")
	subscribed(t, g, 1)
	send(0, killed)
	g.kill()
	g = gateway(g.addr)
	edge.hears("born")
	subscribed(t, g, 1)
	send(killed, each)
	var got map[string][]string
	for end := time.Now().Add(pipelinetest.Patience); time.Now().Before(end) && count(got) < len(keys)*each/10; time.Sleep(50 * time.Millisecond) {
		got = answers(t, url, "eusn")
	}
	want := answers(t, url, "direct")
	for _, key := range keys { // the third sequence contains the kill
		if len(want[key]) == each/10 {
			words := strings.SplitN(want[key][2], " ", 3)
			words[1] = "gap"
			want[key][2] = strings.Join(words, " ")
		}
	}
	// On a slow machine the gateway skips polls, and each adds the flag gap. No sample is lost,
	// because each answered request gets the next one.
	for i := range min(len(got["mill"]), len(want["mill"])) {
		g, w := strings.SplitN(got["mill"][i], " ", 3), strings.SplitN(want["mill"][i], " ", 3)
		if w[1] == "" && g[1] == "gap" {
			w[1] = "gap"
			want["mill"][i] = strings.Join(w, " ")
		}
	}
	if !maps.EqualFunc(got, want, slices.Equal) || count(got) != len(keys)*each/10 {
		t.Errorf("got\n%v\nwant\n%v", got, want)
	}
}

// subscribed waits until a gateway's process has the first values, which make no
// samples.
func subscribed(t *testing.T, g *process, times int) {
	t.Helper()
	for end := time.Now().Add(pipelinetest.Patience); g.says("OPC UA: all variables have values") < times; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the gateway does not subscribe")
		}
	}
}

// The gateway accepts every register that config check accepts.
func TestModbusPattern(t *testing.T) {
	for text, ok := range map[string]bool{
		"holding:100:float32": true, "3/input:7:int16:badc * 0.1 - 40": true, "coil:3": true, "255/discrete:65535 + 1": true, "holding:0:float64 * -2.5e-3": true, "plc-b:502/coil:3": true, "10.0.0.7:502/3/input:7:int16": true, "[::1]:502/coil:3": true,
		"plc b:502/coil:3": false, ":502/coil:3": false, "3/plc:502/coil:3": false, "plc/coil:3": false,
		"": false, "holding:1": false, "coil:3:int16": false, "holding:1:int8": false, "holding:1:int16 *2": false, "holding:1:int16 - -2": false, "1000/coil:1": false, "Holding:1:int16": false, "holding:1:int16 ": false,
	} {
		yaml := fmt.Sprintf("gateway: {modbus: {registers: {p/c0: %q}}}\n", text)
		_, err := config.Load("c.yaml", []byte(yaml), nil, nil)
		servers := "plc:502"
		if i := strings.Index(text, ":502/"); i >= 0 {
			servers = text[:i] + ":502"
		}
		made := modbus.Check(servers, map[string]string{"p/c0": text}, []string{"c0"})
		if (err == nil) != ok || (made == nil) != ok {
			t.Errorf("%q: the configuration says %v, the gateway %v", text, err, made)
		}
	}
}
