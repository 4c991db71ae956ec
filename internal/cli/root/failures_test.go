package root_test

import (
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// Each failure names the problem and the place, and the next line has the next command. No line begins a part with the
// name of a package or a function of Go.
func TestFailures(t *testing.T) {
	packages := packageNames(t)
	t.Chdir(t.TempDir())
	write := func(name, text string) { clitest.Write(t, name, text) }
	for i, units := range []string{"5", "6"} {
		clitest.Must(t, "train", clitest.ImportTiny(t, 2), "--members", "1", "--units", units, "--output", "m"+strconv.Itoa(i))
	}
	clitest.Must(t, "import", clitest.TinyData(t, "Tiny", 2, 24, 40), "--output", "tiny.parquet")
	write("cut.safetensors", string(clitest.Read(t, "m0")[:1000]))
	write("cut.parquet", string(clitest.Read(t, "tiny.parquet")[:1000]))
	write("text", "hello\n")
	write("bad.csv", "time,stream,a\n1,x,zz\n")
	write("key.yaml", "stage:\n  partitons: 3\n")
	write("broken.yaml", "stage:\n  partitions: 3\n - x: [\n")
	write("value.yaml", "stage: {latency: soon}\n")
	write("rule.yaml", "alarms: {rules: {one: flag flatt}}\n")
	url := pipelinetest.Server(t, natsserver.Options{Port: natsserver.RandomPort}).URL()
	stage := clitest.Start(t, "reading sensors.*", "run", "--model", "m0", "--partitions", "2", "--nats-url", url)
	private := "nats://" + pipelinetest.Serve(t, &server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(), Username: "u", Password: "p"}).Addr().String()
	taken := strings.TrimPrefix(url, "nats://")
	_, port, _ := strings.Cut(taken, ":")
	run := "run --model m0 "

	for _, c := range []struct {
		line      string
		code      int
		says, try string
	}{
		{"run --model none", cli.ExitFailure, "eusn-stream: none: no such file or directory\n", "eusn-stream train DATA"},
		{"run --model cut.safetensors", cli.ExitIntegrity, "cut.safetensors: not a usable model file", "eusn-stream train"},
		{"run --model text", cli.ExitIntegrity, "text: not a usable model file: 6 bytes", "eusn-stream train"},
		{"evaluate none --model m0", cli.ExitFailure, "no archive none", "eusn-stream import"},
		{"evaluate cut.parquet --model m0", cli.ExitIntegrity, "cut.parquet: ", "eusn-stream import"},
		{"predict none --model m0", cli.ExitFailure, "eusn-stream: none: no such file or directory\n", "a file that is there"},
		{"train bad.csv", cli.ExitIntegrity, `bad.csv:2: column "a": want a finite number`, "eusn-stream import --help"},
		{"train text", cli.ExitIntegrity, "text: ", "eusn-stream import"},
		{"train none.csv", cli.ExitFailure, "eusn-stream: none.csv: no such file or directory\n", "eusn-stream import --help"},
		{"train tiny.parquet --parts text", cli.ExitUsage, "text: not a file of training and test parts", "eusn-stream offline split"},
		{"train tiny.parquet --output none/m", cli.ExitFailure, "none/m cannot be written: folder none does not exist", "mkdir -p none"},
		{"train tiny.parquet --policy zz", cli.ExitUsage, `policy "zz"`, "eusn-stream train --help"},
		{"run -c key.yaml", cli.ExitConfig, `eusn-stream: key.yaml:2: unknown key "stage.partitons", nearest is "stage.partitions"`, "eusn-stream config init"},
		{"run -c broken.yaml", cli.ExitConfig, "eusn-stream: broken.yaml:2: not valid YAML: ", "eusn-stream config init"},
		{"run -c value.yaml", cli.ExitConfig, "eusn-stream: value.yaml:1: key stage.latency: want a duration", "eusn-stream config init"},
		{"run -c none.yaml", cli.ExitConfig, "eusn-stream: none.yaml: no such file or directory\n", "eusn-stream config init none.yaml"},
		{"config check rule.yaml", cli.ExitConfig, "flatt", ""},
		{"run --port 80x", cli.ExitUsage, "--port 80x: want a whole number", "eusn-stream run --help"},
		{run + "--metrics-listen nonsense", cli.ExitConfig, "key metrics.listen: want host:port", "eusn-stream config init"},
		{run + "--dir d --metrics-listen " + taken, cli.ExitUnreachable, "cannot listen on " + taken + ": address already in use", "--metrics-listen"},
		{run + "--dir d --port " + port, cli.ExitFailure, "cannot listen on " + taken + ": address already in use", "choose another --dir or --port"},
		{run + "--dir text", cli.ExitFailure, "cannot create the data directory text", "choose another --dir"},
		{run + "--nats-url nats://127.0.0.1:1", cli.ExitUnreachable, "cannot connect to the NATS server at nats://127.0.0.1:1", "eusn-stream doctor"},
		{"status --nats-url " + private, cli.ExitUnreachable, private, "EUSN_NATS_CREDS"},
		{"run --model m1 --nats-url " + url, cli.ExitOtherModel, `job "eusn" runs with another network than this worker's`, "eusn-stream model show active"},
		{run + "--partitions 5 --nats-url " + url, cli.ExitFailure, "the job has another number of partitions", "eusn-stream job resize"},
		{"status --job none --nats-url " + url, cli.ExitFailure, `there is no job "none"`, "eusn-stream status --job eusn"},
		{"tail --job none --nats-url " + url, cli.ExitFailure, `there is no job "none"`, "eusn-stream doctor"},
		{"state show none --nats-url " + url, cli.ExitFailure, `stream "none"`, "eusn-stream status --partitions"},
		{"explain --stream none --last --nats-url " + url, cli.ExitFailure, `stream "none"`, "eusn-stream tail"},
		{"deadletter resend 999 --nats-url " + url, cli.ExitFailure, "there is no dead letter 999", "eusn-stream deadletter list"},
		{"model show zz --nats-url " + url, cli.ExitFailure, `job "eusn", fingerprint "zz": the job's registry has no such model`, "eusn-stream model list"},
		{"state diff text text", cli.ExitIntegrity, "text: ", "eusn-stream state export"},
		{"doctor --repair none", cli.ExitUsage, `"none"`, "store_dir"},
		{"gateway --model m0", cli.ExitConfig, "eusn-stream: there is no input", "eusn-stream gateway --help"},
	} {
		r := clitest.Exec(t, t.Context(), strings.Fields(c.line)...)
		text := r.ErrOut[max(0, strings.LastIndex("\n"+r.ErrOut, "\neusn-stream: ")):]
		first, next, _ := strings.Cut(text, "try: ")
		if r.Code != c.code || !strings.HasPrefix(first, "eusn-stream: ") || !strings.Contains(first, c.says) || !strings.Contains(next, c.try) {
			t.Errorf("%s: code %d, want %d, %q and then %q:\n%s", c.line, r.Code, c.code, c.says, c.try, r.ErrOut)
		}
		if bad := packages.FindString(text); bad != "" {
			t.Errorf("%s: %q is the name of a package:\n%s", c.line, bad, text)
		}
	}

	// The log and the list have the reasons of dead letters, which are stored with the name.
	clitest.OnServer(t, url, func(js jetstream.JetStream) error {
		_, err := js.Publish(t.Context(), "sensors.bad", []byte("\xff\xff\xff\xff\x10\x00\x00\x00 no Arrow message"))
		return err
	})
	clitest.Await(t, url, 0, 1)
	stored := clitest.Must(t, "deadletter", "list", "--json", "--nats-url", url).Out
	listed, logged := clitest.Must(t, "deadletter", "list", "--nats-url", url).Out, stage.Messages()
	if !strings.Contains(stored, `"codec: `) || !strings.Contains(logged, "sent to dead letters") || strings.Contains(listed+logged, "codec: ") {
		t.Errorf("stored %s\nlisted %s\nlogged %s\nwant the name of the package only in the stored reason", stored, listed, logged)
	}
}

// packageNames matches the name of a package of this module, or of a function of Go, at the beginning of a part of a
// message.
func packageNames(t *testing.T) *regexp.Regexp {
	t.Helper()
	out, err := exec.Command("go", "list", "-f", "{{.Name}}", "github.com/eusn-stream/eusn-stream/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	names := strings.Fields(string(out))
	if len(names) < 80 {
		t.Fatalf("%d packages, want all of the module", len(names))
	}
	return regexp.MustCompile(`(?m)(?:^|^eusn-stream: |: )(?:` + strings.Join(names, "|") + `|strconv\.\w+|(?:open|stat|lstat) [^:\n]+|(?:listen|dial) tcp[^:\n]*): .*`)
}
