package live_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/internal/testing/planttest"
)

// plantFile writes a configuration with an embedded server, a gateway and an alarm rule, and
// returns its path and the ports of server and MQTT. A prediction needs 20 samples.
func plantFile(t *testing.T, more string) (file, port, mqtt string) {
	t.Helper()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	clitest.Must(t, "import", clitest.TinyData(t, "Tiny", 2, 24, 40), "--output", in("archive"))
	clitest.Must(t, "train", in("archive"), "--output", in("model"), "--bank", "euler", "--members", "1", "--units", "5", "--policy", "count", "--length", "20")
	port, mqtt = planttest.FreePort(t), planttest.FreePort(t)
	return clitest.Write(t, in("plant.yaml"), fmt.Sprintf(`model: %s
server: {dir: %s, port: %s}
stage: {partitions: 2}
gateway: {mqtt: "127.0.0.1:%s", http: "127.0.0.1:0", outbox: %s}
alarms: {rules: {any: "class fast|slow >= 0.1"}}
%s
`, in("model"), in("data"), port, mqtt, in("outbox"), more)), port, mqtt
}

// await returns when the log of a process has a text.
func (p *process) await(t *testing.T, text string) {
	t.Helper()
	for end := time.Now().Add(pipelinetest.Patience); p.says(text) == 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no line with %q within %v", text, pipelinetest.Patience)
		}
	}
}

// send publishes samples first to last of a pump with mosquitto_pub, or with the library of the
// tests, and returns when all are acknowledged.
func send(t *testing.T, port, pump string, first, last int) {
	t.Helper()
	var lines []string
	for i := first; i < last; i++ {
		lines = append(lines, fmt.Sprintf(`{"c0": %d, "c1": %d}`, i%7, i%5))
	}
	if pub, err := exec.LookPath("mosquitto_pub"); err == nil {
		cmd := exec.Command(pub, "-h", "127.0.0.1", "-p", port, "-q", "1", "-t", "sensors/"+pump, "-l")
		cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("mosquitto_pub: %v\n%s", err, out)
		}
		return
	}
	c := paho.NewClient(paho.NewClientOptions().AddBroker("tcp://127.0.0.1:" + port).SetClientID(pump))
	if tok := c.Connect(); !tok.WaitTimeout(pipelinetest.Patience) || tok.Error() != nil {
		t.Fatal(tok.Error())
	}
	defer c.Disconnect(100)
	for _, l := range lines {
		if tok := c.Publish("sensors/"+pump, 1, false, l); !tok.WaitTimeout(pipelinetest.Patience) || tok.Error() != nil {
			t.Fatal(tok.Error())
		}
	}
}

// events returns the lines of "alarms tail" about a pump.
func events(t *testing.T, url, pump string) (lines []string) {
	t.Helper()
	r := clitest.Exec(t, t.Context(), "alarms", "tail", "--since", "1h", "--nats-url", url)
	for line := range strings.Lines(r.Out) {
		if strings.Contains(line, pump) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// A single command with a single file accepts samples by MQTT and HTTP, predicts and raises
// alarms. Killed and restarted, each part continues: each prediction and each event is there
// once. SIGTERM ends all parts.
func TestRunStartsGatewayAndAlarms(t *testing.T) {
	t.Parallel()
	metrics := planttest.FreePort(t)
	file, port, mqtt := plantFile(t, fmt.Sprintf("metrics: {listen: \"127.0.0.1:%s\"}", metrics))
	url := "nats://127.0.0.1:" + port
	start := func() *process {
		p := startProcess(t, "run", "-c", file)
		p.await(t, "alarm rules of job eusn: 1")
		return p
	}
	get := func(path string) (code int, body string) {
		t.Helper()
		resp, err := http.Get("http://127.0.0.1:" + metrics + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	p := start()
	send(t, mqtt, "pump1", 0, 40)
	p.await(t, "alarm raised")
	if code, body := get("/readyz"); code != http.StatusOK {
		t.Errorf("/readyz: %d %s", code, body)
	}
	_, body := get("/metrics")
	for _, want := range []string{"eusn_gateway_samples_total 40", "eusn_predictions_total"} {
		if !strings.Contains(body, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	p.kill()
	p = start()
	send(t, mqtt, "pump1", 40, 80)
	send(t, mqtt, "pump2", 0, 20)
	post(t, p, "pump3", 20)
	clitest.Await(t, url, 6, 0)
	var raised []string
	for end := time.Now().Add(pipelinetest.Patience); len(raised) < 3 && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		raised = append(append(events(t, url, "pump1"), events(t, url, "pump2")...), events(t, url, "pump3")...)
	}
	got := answers(t, url, "eusn")
	if len(got["pump1"]) != 4 || len(got["pump2"]) != 1 || len(got["pump3"]) != 1 || count(got) != 6 {
		t.Errorf("predictions: %v", got)
	}
	if len(raised) != 3 {
		t.Errorf("alarms: %q, want one of each pump", raised)
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
	if p.says("error:") > 0 || p.says("level=ERROR") > 0 {
		t.Error("errors in the log of a clean stop")
	}
}

// post sends samples in a single request to the HTTP listener of a process.
func post(t *testing.T, p *process, pump string, n int) {
	t.Helper()
	addr := regexp.MustCompile(`HTTP at (\S+)`).FindStringSubmatch(p.book.String())
	if addr == nil {
		t.Fatal("no address of HTTP")
	}
	body := "[" + strings.TrimSuffix(strings.Repeat(`{"c0": 1, "c1": 2},`, n), ",") + "]"
	resp, err := http.Post("http://"+addr[1]+"/v1/sensors/"+pump, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		t.Fatalf("HTTP: %d", resp.StatusCode)
	}
}

// An error in the configuration of a part is an error at the start: nothing is accepted.
// --stage-only starts the stage without these parts.
func TestRunRefusesAPart(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	file, _, mqtt := plantFile(t, "")
	text := string(clitest.Read(t, file))
	for _, c := range []struct {
		old, new string
		code     int
		says     []string
	}{
		{"127.0.0.1:" + mqtt, taken.Addr().String(), cli.ExitUnreachable, []string{"gateway.mqtt " + taken.Addr().String(), "address already in use", "--stage-only"}},
		{"class fast", "klass fast", cli.ExitConfig, []string{"alarms.rules"}},
		{"class fast|slow >= 0.1", "class fast >= 0.1, 9 of 2", cli.ExitConfig, []string{`"any"`, "docs/alarm-rules.md"}},
		{"outbox:", "user: x, outbox:", cli.ExitConfig, []string{"gateway.user and gateway.password", "--stage-only"}},
	} {
		other := clitest.Write(t, file+"x.yaml", strings.Replace(text, c.old, c.new, 1))
		out, err := planttest.Command("run", "-c", other).CombinedOutput()
		var ended *exec.ExitError
		if !errors.As(err, &ended) || ended.ExitCode() != c.code {
			t.Errorf("%s: %v, want exit code %d\n%s", c.new, err, c.code, out)
		}
		for _, says := range append(c.says, "try:") {
			if !strings.Contains(string(out), says) {
				t.Errorf("%s: no %q in\n%s", c.new, says, out)
			}
		}
		if strings.Contains(string(out), "reading sensors") {
			t.Errorf("%s: the stage has started:\n%s", c.new, out)
		}
	}
	clitest.Write(t, file, strings.Replace(text, "127.0.0.1:"+mqtt, taken.Addr().String(), 1))
	stage := clitest.Start(t, "reading sensors.*", "run", "--stage-only", "-c", file)
	stage.Stop(t).Want(t, cli.ExitOK, "keys of the configuration file without an effect on this command", "alarms.rules", "gateway.mqtt")
}

// The alarms of a run stand by after another process has taken them over, and continue at its end.
func TestAlarmsOfRunAndAnotherKeeper(t *testing.T) {
	t.Parallel()
	file, port, mqtt := plantFile(t, "")
	url := "nats://127.0.0.1:" + port
	p := startProcess(t, "run", "-c", file)
	p.await(t, "alarm rules of job eusn: 1")
	other := clitest.Start(t, "alarm rules of job eusn: 1", "alarms", "run", "-c", file, "--nats-url", url, "--take-over")
	send(t, mqtt, "pump1", 0, 20)
	p.await(t, "is the standby")
	clitest.Await(t, url, 1, 0)
	for end := time.Now().Add(pipelinetest.Patience); !strings.Contains(other.Messages(), "alarm raised"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the other keeper raises no alarm:\n%s", other.Messages())
		}
	}
	other.Stop(t).Want(t, cli.ExitOK)
	send(t, mqtt, "pump2", 0, 20)
	p.await(t, "alarm raised")
	if a, b := events(t, url, "pump1"), events(t, url, "pump2"); len(a) != 1 || len(b) != 1 {
		t.Errorf("%q, %q: want one event each", a, b)
	}
}

// Predictions that were removed before they were judged stop the alarms of a run, not the stage.
// /readyz has the reason. The named next step is correct: a process with --missing continues, and
// the run stands by.
func TestAlarmsOfRunMissPredictions(t *testing.T) {
	t.Parallel()
	metrics := planttest.FreePort(t)
	file, port, mqtt := plantFile(t, fmt.Sprintf("metrics: {listen: \"127.0.0.1:%s\"}", metrics))
	url := "nats://127.0.0.1:" + port
	text := string(clitest.Read(t, file))
	without := clitest.Write(t, file+"x.yaml", strings.Replace(text, "alarms:", "#", 1))

	p := startProcess(t, "run", "-c", file)
	p.await(t, "alarm rules of job eusn: 1")
	send(t, mqtt, "pump1", 0, 20)
	p.await(t, "alarm raised")
	p.kill()
	p = startProcess(t, "run", "-c", without)
	for n := 2; n <= 4; n++ {
		send(t, mqtt, "pump1", 20*n-20, 20*n)
		clitest.Await(t, url, n, 0)
	}
	clitest.OnServer(t, url, func(js jetstream.JetStream) error {
		out, err := js.Stream(t.Context(), "EUSN-OUT")
		for part := 0; part < 2 && err == nil; part++ {
			err = out.Purge(t.Context(), jetstream.WithPurgeSubject(fmt.Sprintf("eusn.out.%d", part)), jetstream.WithPurgeKeep(1))
		}
		return err
	})
	p.kill()
	p = startProcess(t, "run", "-c", file)
	p.await(t, "alarms are not raised")
	p.await(t, "eusn-stream alarms run --missing -c "+file)
	if r := readiness(metrics); !strings.HasPrefix(r, "503") || !strings.Contains(r, "alarms are not judged: ") || strings.Contains(r, "gateway") {
		t.Errorf("/readyz: %s", r)
	}
	send(t, mqtt, "pump2", 0, 20)
	other := clitest.Start(t, "alarm rules of job eusn: 1", "alarms", "run", "-c", file, "--nats-url", url, "--missing")
	p.await(t, "is the standby")
	for end := time.Now().Add(pipelinetest.Patience); !strings.HasPrefix(readiness(metrics), "200"); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("/readyz: %s", readiness(metrics))
		}
	}
	other.Stop(t).Want(t, cli.ExitOK)
	if got := answers(t, url, "eusn"); len(got["pump2"]) != 1 {
		t.Errorf("predictions: %v", got)
	}
	if lines := events(t, url, "pump2"); len(lines) != 1 {
		t.Errorf("alarms of pump2: %q", lines)
	}
}

// A gateway that does not go with the job's input format ends the run: the error names the cause
// and the next steps. Nothing was taken, and --stage-only continues the job.
func TestGatewayOfRunAndAnotherInput(t *testing.T) {
	t.Parallel()
	file, port, _ := plantFile(t, "")
	url := "nats://127.0.0.1:" + port
	send := func() {
		clitest.OnServer(t, url, func(js jetstream.JetStream) error {
			_, err := js.Publish(t.Context(), "sensors.pump1", []byte("["+strings.TrimSuffix(strings.Repeat(`{"c0": 1, "c1": 2},`, 20), ",")+"]"))
			return err
		})
	}
	json := clitest.Write(t, file+"x.yaml", string(clitest.Read(t, file))+"input: {format: json}\n")
	stage := clitest.Start(t, "reading sensors.*", "run", "--stage-only", "-c", json)
	send()
	clitest.Await(t, url, 1, 0)
	stage.Stop(t).Want(t, cli.ExitOK)
	out, err := planttest.Command("run", "-c", file).CombinedOutput()
	var ended *exec.ExitError
	if !errors.As(err, &ended) || ended.ExitCode() != cli.ExitConfig {
		t.Errorf("%v, want exit code %d", err, cli.ExitConfig)
	}
	for _, says := range []string{"it was started with input.format: json, and the gateway publishes Arrow", "stopped: 0 messages", "try: another job", "--stage-only"} {
		if !strings.Contains(string(out), says) {
			t.Errorf("no %q in\n%s", says, out)
		}
	}
	stage = clitest.Start(t, "reading sensors.*", "run", "--stage-only", "-c", json)
	send()
	clitest.Await(t, url, 2, 0)
	stage.Stop(t).Want(t, cli.ExitOK)
}

// Somebody deletes the alarm log while the process runs. The stage continues, /readyz has the
// reason, and a new log begins without a restart.
func TestAlarmLogOfRunDeleted(t *testing.T) {
	t.Parallel()
	metrics := planttest.FreePort(t)
	file, port, mqtt := plantFile(t, fmt.Sprintf("metrics: {listen: \"127.0.0.1:%s\"}", metrics))
	url := "nats://127.0.0.1:" + port
	p := startProcess(t, "run", "-c", file)
	p.await(t, "alarm rules of job eusn: 1")
	send(t, mqtt, "pump1", 0, 20)
	p.await(t, "alarm raised")
	clitest.OnServer(t, url, func(js jetstream.JetStream) error { return js.DeleteStream(t.Context(), "EUSN-ALARMS") })
	p.await(t, "alarms are not raised")
	if r := readiness(metrics); !strings.HasPrefix(r, "503") || !strings.Contains(r, "EUSN-ALARMS was deleted") {
		t.Errorf("/readyz: %s", r)
	}
	send(t, mqtt, "pump2", 0, 20)
	for end := time.Now().Add(pipelinetest.Patience); !strings.HasPrefix(readiness(metrics), "200"); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("/readyz: %s", readiness(metrics))
		}
	}
	send(t, mqtt, "pump3", 0, 20)
	clitest.Await(t, url, 3, 0)
	want := map[string]int{"pump1": 1, "pump2": 1, "pump3": 1} // the log begins with the start of the process
	got := map[string]int{}
	for end := time.Now().Add(pipelinetest.Patience); !maps.Equal(got, want) && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		for pump := range want {
			got[pump] = len(events(t, url, pump))
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("events: %v, want %v", got, want)
	}
	if got := answers(t, url, "eusn"); len(got["pump1"]) != 1 || len(got["pump2"]) != 1 || len(got["pump3"]) != 1 || count(got) != 3 {
		t.Errorf("predictions: %v", got)
	}
}

// readiness returns the status and the text of /readyz, or an error.
func readiness(metrics string) string {
	resp, err := http.Get("http://127.0.0.1:" + metrics + "/readyz")
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body) // an incomplete text differs from the expected text
	return resp.Status + " " + string(body)
}

// With users, the parts of a run use the connection inside the process: no user is needed for them.
func TestRunTogetherWithUsers(t *testing.T) {
	t.Parallel()
	file, _, mqtt := plantFile(t, "")
	clitest.Must(t, "secure", "init", file+"s.yaml", "--host", "localhost")
	users := filepath.Join(filepath.Dir(file), "eusn-secure", "users")
	clitest.Write(t, file, strings.Replace(string(clitest.Read(t, file)), "server: {", "server: {users: "+users+", ", 1))
	p := startProcess(t, "run", "-c", file)
	p.await(t, "alarm rules of job eusn: 1")
	send(t, mqtt, "pump1", 0, 20)
	p.await(t, "alarm raised")
}
