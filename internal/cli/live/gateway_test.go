package live_test

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/producer"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/internal/testing/planttest"
)

func TestMain(m *testing.M) { planttest.Main(m) }

// process is the program in a separate process.
type process struct {
	*exec.Cmd
	addr string // address of its first listener
	book *pipelinetest.LogBook
}

// says counts the lines of its log with a text.
func (p *process) says(text string) int { return p.book.Lines(text) }

var listening = regexp.MustCompile(`MQTT broker at (\S+)`)

func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{Cmd: planttest.Command(args...), book: &pipelinetest.LogBook{}}
	out, err := p.StderrPipe()
	if err == nil {
		err = p.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	addr := make(chan string, 1)
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			t.Log(s.Text())
			fmt.Fprintln(p.book, s.Text())
			if m := listening.FindStringSubmatch(s.Text()); m != nil {
				addr <- m[1]
			}
		}
	}()
	select {
	case p.addr = <-addr:
	case <-time.After(pipelinetest.Patience):
		t.Fatal("the gateway does not listen")
	}
	return p
}

func (p *process) kill() {
	p.Process.Kill()
	p.Wait()
}

// answers are the predictions of a job by stream, in order, as text.
func answers(t *testing.T, url, job string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	clitest.OnServer(t, url, func(js jetstream.JetStream) error {
		return consumer.Read(t.Context(), js, job, consumer.Span{From: 1, Stored: true}, func(o consumer.Output) error {
			for _, p := range o.Predictions {
				var bits []string
				for _, s := range p.Scores {
					bits = append(bits, fmt.Sprintf("%08x", math.Float32bits(s)))
				}
				all[p.Stream] = append(all[p.Stream], fmt.Sprint(p.Class, " ", p.Flags, " ", bits))
			}
			return nil
		})
	})
	return all
}

// inputRows is how many samples the job's input has.
func inputRows(t *testing.T, url string) (n int) {
	t.Helper()
	readInput(t, url, func(_ string, b *codec.Batch) { n += b.Rows })
	return n
}

func count(m map[string][]string) (n int) {
	for _, x := range m {
		n += len(x)
	}
	return n
}

// A repeatedly killed gateway loses no message from devices with a session, and
// duplicates none: the predictions have the bits, and the flags, of the same samples
// published without a gateway.
func TestKilledGateway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	clitest.Must(t, "import", clitest.TinyData(t, "Tiny", 2, 24, 40), "--output", in("archive"))
	clitest.Must(t, "train", in("archive"), "--output", in("model"), "--bank", "euler", "--members", "1", "--units", "5", "--policy", "count", "--length", "20")
	stage := clitest.Start(t, "reading sensors.*", "run", "--model", in("model"), "--dir", in("data"), "--port", "-1", "--partitions", "4")
	url := clitest.ServerURL.FindString(stage.Messages())
	direct := clitest.Start(t, "reading direct.*", "run", "-c", clitest.Write(t, in("direct.yaml"), "job: direct\nmodel: "+in("model")+"\nnats: {url: "+url+"}\ninput: {subject: direct.*}\nstage: {partitions: 4}\n"))
	defer stage.Stop(t) // last: it contains the server
	defer direct.Stop(t)

	const devices, each, kills = 6, 400, 5
	value := func(d, i, c int) float32 { return float32(math.Sin(float64(i)/float64(3+d)+float64(c))) * 2 }
	var items []producer.Item
	for d := range devices {
		it := producer.Item{Stream: fmt.Sprint("A/", d)}
		for i := range each {
			it.X = append(it.X, value(d, i, 0), value(d, i, 1))
		}
		items = append(items, it)
	}
	nc, err := natsclient.Connect(t.Context(), natsclient.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := (producer.Publisher{Subject: "direct.*", Channels: []string{"c0", "c1"}}).Publish(t.Context(), nc, producer.FromSlice(items)); err != nil {
		t.Fatal(err)
	}

	gateway := func(addr string) *process {
		return startProcess(t, "gateway", "--model", in("model"), "--nats-url", url, "--mqtt-listen", addr, "--topics", "plant/+/sensor/+", "--outbox", in("outbox"))
	}
	g := gateway("127.0.0.1:0")
	var clients []paho.Client
	for d := range devices {
		o := paho.NewClientOptions().AddBroker("tcp://" + g.addr).SetClientID(fmt.Sprint("device", d)).SetCleanSession(false).SetProtocolVersion(4).
			SetAutoReconnect(true).SetMaxReconnectInterval(20 * time.Millisecond).SetStore(paho.NewOrderedMemoryStore())
		c := paho.NewClient(o)
		if tok := c.Connect(); !tok.WaitTimeout(pipelinetest.Patience) || tok.Error() != nil {
			t.Fatal(tok.Error())
		}
		defer c.Disconnect(0)
		clients = append(clients, c)
	}
	for i := range each {
		if i%(each/kills) < each/kills/2-10 { // the rest is in transit at the kill
			time.Sleep(2 * time.Millisecond)
		}
		for d, c := range clients {
			c.Publish(fmt.Sprint("plant/A/sensor/", d), 1, false, fmt.Sprintf(`{"c0": %v, "c1": %v}`, value(d, i, 0), value(d, i, 1)))
		}
		if i%(each/kills) == each/kills/2 {
			g.kill()
			g = gateway(g.addr)
			// This library mixes new messages with resent messages, which would change
			// a stream's order. So resent messages come first.
			for end := time.Now().Add(pipelinetest.Patience); inputRows(t, url) < devices*(i+1); time.Sleep(20 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%d samples in the input after message %d of %d devices", inputRows(t, url), i, devices)
				}
			}
		}
	}
	var got map[string][]string
	for end := time.Now().Add(pipelinetest.Patience); time.Now().Before(end) && count(got) < devices*each/20; time.Sleep(100 * time.Millisecond) {
		got = answers(t, url, "eusn")
	}
	time.Sleep(300 * time.Millisecond) // for doubled samples
	got = answers(t, url, "eusn")
	want := answers(t, url, "direct")
	if count(want) != devices*each/20 {
		t.Fatalf("%d predictions without the gateway", count(want))
	}
	if !maps.EqualFunc(got, want, slices.Equal) {
		for k := range want {
			if slices.Equal(got[k], want[k]) {
				continue
			}
			t.Errorf("stream %s: %d predictions, want %d\n%v\n%v", k, len(got[k]), len(want[k]), got[k], want[k])
		}
	}
}

// Errors in a gateway's configuration are reported before anything starts.
func TestGatewayRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	clitest.Exec(t, t.Context(), "gateway").Want(t, cli.ExitConfig, "there is no input", "try:")
	for _, c := range []struct {
		text, says string
	}{
		{"gateway: {mqtt: ':1883'}", "gateway.user with gateway.password, and gateway.tls.cert"},
		{"gateway: {http: '0.0.0.0:80', user: u, password: p}", "the password would be sent in clear"},
		{"gateway: {tcp: ':8094'}", "lines have no login"},
		{"gateway: {mqtt: '127.0.0.1:0', user: u}", "give both or neither, the password as EUSN_GATEWAY_PASSWORD"},
		{"gateway: {broker: '127.0.0.1:1883'}", "want a URL such as tcp://host:1883"},
		{"gateway: {broker: 'http://127.0.0.1:1883'}", "want a URL such as tcp://host:1883"},
		{"gateway: {mqtt: '127.0.0.1:0', tls: {cert: none.pem, key: none.pem}}", "none.pem"},
		{"gateway: {mqtt: '127.0.0.1:0', tls: {ca: ca.pem}}", "gateway.tls.cert and gateway.tls.key with it"},
		{"gateway: {broker: 'tcp://127.0.0.1:1', broker_tls: {ca: none.pem}}", "gateway.broker_tls: "},
		{"gateway: {mqtt: '127.0.0.1:0', topics: a/b}", "want a + or #"},
		{"gateway: {mqtt: '127.0.0.1:0'}\ninput: {format: json}", "set input.format: auto"},
	} {
		file := clitest.Write(t, filepath.Join(dir, "c.yaml"), c.text+"\n")
		for _, command := range [][]string{{"gateway", "-c", file}, {"config", "check", file}} {
			clitest.Exec(t, t.Context(), command...).Want(t, cli.ExitConfig, c.says, "try:")
		}
	}
}

// A gateway that starts before its server waits for it, and logs the reason.
func TestGatewayWaitsForTheServer(t *testing.T) {
	t.Parallel()
	p := &plant{planttest.NewIdle(t, "")}
	p.startGateway("--http-listen", "127.0.0.1:0")
	p.Await("that it says what it waits for", func() bool { return p.HasLogged("gateway", "waiting for the NATS server") })
	if p.HasLogged("gateway", "publishing to") {
		t.Error("it works without a server")
	}
	p.StartStage()
	p.Await("the gateway", func() bool { return p.HasLogged("gateway", "publishing to") })
}

// A gateway ends if the job's stage would not read its messages.
func TestGatewayAndJobDoNotGoTogether(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	clitest.Must(t, "import", clitest.TinyData(t, "Tiny", 2, 24, 40), "--output", in("archive"))
	clitest.Must(t, "train", in("archive"), "--output", in("model"), "--bank", "euler", "--members", "1", "--units", "5", "--policy", "count", "--length", "4")
	file := clitest.Write(t, in("c.yaml"), "input: {format: json}\n")
	stage := clitest.Start(t, "reading sensors.*", "run", "-c", file, "--model", in("model"), "--dir", in("data"), "--port", "-1", "--partitions", "2")
	defer stage.Stop(t)
	url := clitest.ServerURL.FindString(stage.Messages())
	clitest.Exec(t, t.Context(), "gateway", "--model", in("model"), "--nats-url", url, "--http-listen", "127.0.0.1:0", "--outbox", in("outbox")).
		Want(t, cli.ExitConfig, "started with input.format: json", "set gateway.format: json", "try:")
}

// HTTP and lines, as a person would try them.
func TestGatewayOverHTTPAndLines(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	clitest.Must(t, "import", clitest.TinyData(t, "Tiny", 2, 24, 40), "--output", in("archive"))
	clitest.Must(t, "train", in("archive"), "--output", in("model"), "--bank", "euler", "--members", "1", "--units", "5", "--policy", "count", "--length", "4")
	stage := clitest.Start(t, "reading sensors.*", "run", "--model", in("model"), "--dir", in("data"), "--port", "-1", "--partitions", "2")
	defer stage.Stop(t)
	url := clitest.ServerURL.FindString(stage.Messages())
	g := clitest.Start(t, "publishing to", "gateway", "--model", in("model"), "--nats-url", url, "--http-listen", "127.0.0.1:0", "--tcp-listen", "127.0.0.1:0", "--udp-listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--outbox", in("outbox"))
	defer g.Stop(t)
	at := func(what string) string {
		m := regexp.MustCompile(what + ` at (\S+)`).FindStringSubmatch(g.Messages())
		if m == nil {
			t.Fatalf("no address of %s:\n%s", what, g.Messages())
		}
		return m[1]
	}
	post := func(path, body, idempotency string) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+at("HTTP")+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if idempotency != "" {
			r.Header.Set("Idempotency-Key", idempotency)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	for _, c := range []struct {
		path, body, key string
		code            int
	}{
		{"/v1/sensors/h", `{"c0": [1, 2], "c1": [3, 4]}`, "a", 204},
		{"/v1/sensors/h", `{"c0": [1, 2], "c1": [3, 4]}`, "a", 204},
		{"/v1/sensors/h", `{"c0": 5, "c1": 6}`, "a", 400},
		{"/v1/sensors/h", `{"c0": [5, 6], "c1": [7, 8]}`, "b", 204},
		{"/v1/elsewhere", `{"c0": 5, "c1": 6}`, "", 404},
		{"/sensors/h", `{"c0": 5, "c1": 6}`, "", 404},
		{"/v1/sensors/h.h", `{"c0": 5, "c1": 6}`, "", 404},
		{"/write", "m,stream_id=w c0=1,c1=2\nm,stream_id=w c0=1,c1=2\nm,stream_id=w c0=1,c1=2\nm,stream_id=w c0=1,c1=2\n", "", 204},
		{"/write", "m c0=1,c1=2", "", 400},
		{"/v1/sensors/h", strings.Repeat("x", 300<<10), "", 413},
	} {
		if code := post(c.path, c.body, c.key); code != c.code {
			t.Errorf("POST %s %.40q: %d, want %d", c.path, c.body, code, c.code)
		}
	}
	testLinesWithoutPaths(t, in("model"), url)
	for _, network := range []string{"TCP", "UDP"} {
		sendLines(t, strings.ToLower(network), at("lines over "+network), 4)
	}
	var got map[string][]string
	for end := time.Now().Add(pipelinetest.Patience); time.Now().Before(end) && count(got) < 4; time.Sleep(50 * time.Millisecond) {
		got = answers(t, url, "eusn")
	}
	if len(got["h"]) != 1 || len(got["w"]) != 1 || len(got["tcp"]) != 1 || len(got["udp"]) != 1 {
		t.Errorf("%v: want a prediction each of h, w, tcp and udp", got)
	}
}

// testLinesWithoutPaths: a gateway whose channels are at paths of JSON refuses lines
// over HTTP with the reason.
func testLinesWithoutPaths(t *testing.T, model, url string) {
	t.Helper()
	dir := t.TempDir()
	file := clitest.Write(t, filepath.Join(dir, "c.yaml"), "input: {channels: {c0: $.a.x, c1: $.a.y}}\n")
	g := clitest.Start(t, "publishing to", "gateway", "-c", file, "--model", model, "--nats-url", url, "--http-listen", "127.0.0.1:0", "--outbox", filepath.Join(dir, "outbox"))
	defer g.Stop(t)
	addr := regexp.MustCompile(`HTTP at (\S+)`).FindStringSubmatch(g.Messages())
	resp, err := http.Post("http://"+addr[1]+"/write", "", strings.NewReader("m,stream_id=w c0=1,c1=2"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if says, err := io.ReadAll(resp.Body); resp.StatusCode != 400 || err != nil || !strings.Contains(string(says), "in line protocol") {
		t.Errorf("%d, %s, %v: want 400 and the reason", resp.StatusCode, says, err)
	}
}

func sendLines(t *testing.T, network, addr string, n int) {
	t.Helper()
	c, err := net.Dial(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range n {
		if _, err := fmt.Fprintf(c, "m,stream_id=%s c0=1,c1=2\nnonsense\n", network); err != nil {
			t.Fatal(err)
		}
	}
}
