package live_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/client"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// envOf reads an .env file of secure init.
func envOf(t *testing.T, dir, role string) map[string]string {
	t.Helper()
	env := map[string]string{}
	for line := range strings.Lines(string(clitest.Read(t, filepath.Join(dir, "eusn-secure", role+".env")))) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && line[0] != '#' {
			env[name] = strings.Trim(value, "'")
		}
	}
	return env
}

// securePort requires that the metrics port of the stage with this output answers with
// the plant's certificate, and only after a login.
func securePort(t *testing.T, dir, said string) {
	t.Helper()
	in := func(name string) string { return string(clitest.Read(t, filepath.Join(dir, "eusn-secure", name))) }
	at := regexp.MustCompile(`metrics at (https://127\.0\.0\.1:\d+/metrics)`).FindStringSubmatch(said)
	if at == nil {
		t.Fatalf("no address of the metrics in\n%s", said)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(in("ca.pem")))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	defer transport.CloseIdleConnections()
	f := strings.Fields(in("metrics.netrc"))
	for want, login := range map[int][]func(r *http.Request){
		401: {func(*http.Request) {}, func(r *http.Request) { r.SetBasicAuth(f[2], "x") }},
		200: {func(r *http.Request) { r.SetBasicAuth(f[2], f[4]) }, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(in("metrics.token"))) }},
	} {
		for i, logIn := range login {
			r, err := http.NewRequest(http.MethodGet, at[1], nil)
			if err != nil {
				t.Fatal(err)
			}
			logIn(r)
			res, err := (&http.Client{Transport: transport}).Do(r)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != want {
				t.Errorf("the metrics with login %d: %d, want %d", i, res.StatusCode, want)
			}
		}
	}
}

// A plant as in docs/secure.md: one command makes certificates and users, and each role
// works with its file. Other logins are refused, with helpful messages.
func TestSecurePlant(t *testing.T) {
	archive, dir := clitest.ImportTiny(t, 2), t.TempDir()
	model := filepath.Join(dir, "m.safetensors")
	clitest.Must(t, "train", archive, "--output", model, "--members", "2", "--units", "8")
	file := filepath.Join(dir, "eusn-stream.yaml")
	clitest.Must(t, "secure", "init", "--host", "plant.example", file)
	for _, name := range []string{"ca.key", "server.key", "users", "operator.env", "sensor.env"} {
		if at, err := os.Stat(filepath.Join(dir, "eusn-secure", name)); err != nil || at.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v; want mode 0600", name, at.Mode(), err)
		}
	}
	for _, key := range []string{"port: 4222", "dir: eusn-data", `websocket: ""`} {
		to := map[string]string{"port: 4222": "port: -1", "dir: eusn-data": "dir: " + filepath.Join(dir, "data"), `websocket: ""`: "websocket: 0.0.0.0:0"}[key]
		text := string(clitest.Read(t, file))
		if strings.Count(text, "\n  "+key) != 1 {
			t.Fatalf("%q is not once in\n%s", key, text)
		}
		clitest.Write(t, file, strings.Replace(text, "\n  "+key, "\n  "+to, 1))
	}
	stage := clitest.Start(t, "reading sensors.*", "run", "-c", file, "--model", model, "--partitions", "2", "--metrics-listen", "127.0.0.1:0")
	securePort(t, dir, stage.Messages())
	port := regexp.MustCompile(`tls://0\.0\.0\.0:(\d+)`).FindStringSubmatch(stage.Messages())
	if port == nil {
		t.Fatalf("no address in\n%s", stage.Messages())
	}
	url := "tls://127.0.0.1:" + port[1]
	as := func(role string) {
		t.Helper()
		for name, value := range envOf(t, dir, role) {
			t.Setenv(name, value)
		}
		t.Setenv("EUSN_NATS_URL", url) // the file has the name that clients use
	}

	sensor := envOf(t, dir, "sensor")
	if want := "tls://plant.example:4222"; sensor["EUSN_NATS_URL"] != want {
		t.Errorf("sensor.env has the address %s, want %s", sensor["EUSN_NATS_URL"], want)
	}
	login := []nats.Option{nats.UserInfo(sensor["EUSN_NATS_USER"], sensor["EUSN_NATS_PASSWORD"]), nats.RootCAs(sensor["EUSN_NATS_TLS_CA"]), nats.CustomInboxPrefix(sensor["EUSN_NATS_INBOX_PREFIX"])}
	c, err := client.Connect(t.Context(), client.Options{URL: url, NATS: login, Channels: []string{"c0", "c1"}})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Publish(t.Context(), client.Samples{Stream: "p", X: make([]float32, 80), End: true})
	if err == nil {
		err = c.Flush(t.Context())
	}
	if err != nil {
		t.Errorf("a sensor with package client: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	for p, err := range c.Predictions(ctx, client.ReadOptions{From: 1}) {
		if err == nil {
			t.Errorf("a sensor read a prediction: %v", p)
		}
	}
	cancel()
	c.Close(t.Context())

	as("gateway")
	gateway := clitest.Start(t, "publishing to", "gateway", "-c", file, "--model", model, "--tcp-listen", "127.0.0.1:0", "--outbox", filepath.Join(dir, "outbox"))
	gateway.Stop(t).Want(t, cli.ExitOK)
	if said := gateway.Messages(); strings.Contains(strings.ToLower(said), "violation") {
		t.Errorf("a gateway lacks rights:\n%s", said)
	}

	as("operator")
	clitest.Must(t, "replay", archive, "--streams", "3")
	for end := time.Now().Add(pipelinetest.Patience); ; time.Sleep(50 * time.Millisecond) {
		as("reader")
		if r := clitest.Must(t, "tail", "--since", "1h"); strings.Count(r.Out, "\n") == 25 {
			break
		} else if time.Now().After(end) {
			t.Fatalf("a reader sees\n%s", r.Out)
		}
	}
	as("operator")
	for _, args := range [][]string{{"status", "--partitions"}, {"deadletter", "list"}, {"doctor"}, {"state", "verify", "--model", model}} {
		clitest.Must(t, args...)
	}

	as("analyst")
	old := filepath.Join(dir, "old.jsonl")
	clitest.Must(t, "job", "backfill", "--since", "start", "--model", model, "--output", old)
	if n := strings.Count(string(clitest.Read(t, old)), "\n"); n != 25 {
		t.Errorf("an analyst's file has %d predictions, want 25", n)
	}

	if r := clitest.Must(t, "explain", "--partition", "0", "--number", "1"); !strings.Contains(r.Out, "bit for bit") {
		t.Errorf("an analyst is told\n%s", r.Out)
	}
	clitest.Exec(t, t.Context(), "labels", "add", "--stream", "p", "--since", "1", "--until", "2", "--class", "fast", "--who", "anna").Want(t, cli.ExitFailure, "this login may not do that", "operator.env")

	// Another readout: an analyst has no right to promote it, an operator has.
	m, err := reservoir.Load(model)
	if err != nil {
		t.Fatal(err)
	}
	m.Readouts[0].Intercept[0]++
	other := filepath.Join(dir, "other.safetensors")
	if err := m.Save(other); err != nil {
		t.Fatal(err)
	}
	as("operator")
	print := strings.TrimSpace(clitest.Must(t, "model", "publish", other).Out)
	as("analyst")
	clitest.Exec(t, t.Context(), "model", "promote", print).Want(t, cli.ExitFailure, "the change was not stored", "this login may not do that", "operator.env")
	as("operator")
	if r := clitest.Must(t, "model", "promote", print); !strings.Contains(r.ErrOut, "promotion 1:") {
		t.Errorf("the operator's promotion is not the first:\n%s", r.ErrOut)
	}

	as("labeler") // the stage that starts the server has created their NATS stream
	clitest.Must(t, "labels", "add", "--stream", "p", "--since", "1", "--until", "2", "--class", "fast", "--who", "anna")
	if r := clitest.Must(t, "labels", "export"); !strings.Contains(r.Out, "fast,anna") {
		t.Errorf("a labeler reads\n%s", r.Out)
	}
	for _, args := range [][]string{{"labels", "list", "--job", "other"}, {"job", "resize", "--abandon"}, {"job", "resize", "3", "--dry-run"}, {"status", "--partitions"}, {"job", "backfill", "--since", "start", "--model", model, "--output", old + ".jsonl"},
		{"replay", archive, "--streams", "3"}} {
		clitest.Exec(t, t.Context(), args...).Want(t, cli.ExitFailure, "this login may not do that", "Permissions Violation", "operator.env")
	}

	as("operator")
	clitest.Exec(t, t.Context(), "alarms", "list").Want(t, cli.ExitFailure, "the job has no alarm log", "alarms run -c FILE")
	as("alarms")
	keeper := clitest.Start(t, "alarm rules of job eusn: 0", "alarms", "run")
	as("operator")
	rules := clitest.Write(t, filepath.Join(dir, "rules.yaml"), "any: class fast|slow\n")
	if r := clitest.Must(t, "alarms", "rules", "set", rules, "--dry-run"); r.Out != "+ any: class fast|slow\n" || !strings.HasSuffix(r.ErrOut, "nothing was changed\n") {
		t.Errorf("rules set --dry-run prints\n%s%s", r.Out, r.ErrOut)
	}
	if r := clitest.Must(t, "alarms", "rules"); r.Out != "" || r.ErrOut != "no rules\n" {
		t.Errorf("rules set --dry-run set rules:\n%s%s", r.Out, r.ErrOut)
	}
	odd := clitest.Write(t, filepath.Join(dir, "odd.yaml"), "odd: class worn\n")
	if r := clitest.Must(t, "alarms", "rules", "set", odd, "--dry-run"); !strings.HasPrefix(r.ErrOut, `warning: rule "odd": a rule names a class`) || !strings.Contains(r.ErrOut, "model show --job eusn") {
		t.Errorf("rules set with a class that the model lacks prints\n%s", r.ErrOut)
	}
	clitest.Must(t, "alarms", "rules", "set", rules)
	if r := clitest.Must(t, "alarms", "rules", "set", rules, "--dry-run"); !strings.HasPrefix(r.ErrOut, "no changes\n") || r.Out != "" {
		t.Errorf("rules set --dry-run of the same rules prints\n%s%s", r.Out, r.ErrOut)
	}
	as("reader")
	if r := clitest.Must(t, "alarms", "rules"); !strings.Contains(r.Out, "any: class fast|slow") {
		t.Errorf("a reader reads the rules\n%s", r.Out)
	}
	clitest.Must(t, "alarms", "list")
	clitest.Exec(t, t.Context(), "alarms", "ack", "any", "p").Want(t, cli.ExitFailure, "this login may not do that")
	keeper.Stop(t).Want(t, cli.ExitOK)
	if said := keeper.Messages(); strings.Contains(strings.ToLower(said), "violation") {
		t.Errorf("the process of alarms lacks rights:\n%s", said)
	}

	as("stage")
	worker := clitest.Start(t, "reading sensors.*", "run", "--model", model, "--partitions", "2")
	worker.Stop(t).Want(t, cli.ExitOK)
	if said := worker.Messages(); strings.Contains(strings.ToLower(said), "violation") {
		t.Errorf("a worker lacks rights:\n%s", said)
	}

	t.Setenv("EUSN_NATS_PASSWORD", "wrong")
	clitest.Exec(t, t.Context(), "tail").Want(t, cli.ExitUnreachable, "Authorization Violation", "try: set nats.creds", "operator.env")
	t.Setenv("EUSN_NATS_TLS_CA", "")
	clitest.Exec(t, t.Context(), "tail").Want(t, cli.ExitUnreachable, "unknown authority", "try: set nats.tls.ca", "operator.env")
	for _, name := range []string{"EUSN_NATS_URL", "EUSN_NATS_USER", "EUSN_NATS_PASSWORD", "EUSN_NATS_INBOX_PREFIX"} {
		t.Setenv(name, "")
	}
	stage.Stop(t).Want(t, cli.ExitOK)

	// Without the folder, and with an invalid file.
	clitest.Write(t, file, "server:\n  listen: 0.0.0.0\n")
	clitest.Exec(t, t.Context(), "run", "-c", file, "--model", model).Want(t, cli.ExitConfig, "server.listen", "secure init")
	users := clitest.Write(t, filepath.Join(dir, "none"), "me sensor secret\n")
	clitest.Write(t, file, "server:\n  users: "+users+"\n  dir: "+filepath.Join(dir, "other")+"\n")
	r := clitest.Exec(t, t.Context(), "run", "-c", file, "--model", model)
	r.Want(t, cli.ExitConfig, "server.users", "line 1", "is not a bcrypt hash", "htpasswd -B", "try:")
	if strings.Contains(r.ErrOut, "secret") {
		t.Error("what may be a password is shown")
	}
}
