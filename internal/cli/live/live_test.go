package live_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// A stage and a replay as two programs, joined by TCP; then the errors with a second
// stage.
func TestRunAndReplay(t *testing.T) {
	t.Parallel()
	archive, dir := clitest.ImportTiny(t, 2), t.TempDir()
	model := filepath.Join(dir, "m.safetensors")
	clitest.Must(t, "train", archive, "--output", model, "--members", "2", "--units", "8")
	data := filepath.Join(dir, "data")
	stage := clitest.Start(t, "reading sensors.*", "run", "--json", "--model", model, "--dir", data, "--port", "-1", "--partitions", "4")
	url := clitest.ServerURL.FindString(stage.Messages())

	lines := make(chan clitest.Line, 100)
	go func() {
		defer close(lines)
		for in := bufio.NewScanner(stage.Out); in.Scan(); {
			var p clitest.Line
			if err := json.Unmarshal(in.Bytes(), &p); err != nil {
				t.Errorf("run --json printed %q: %v", in.Text(), err)
			}
			lines <- p
		}
	}()
	var published struct{ Rows, Messages, Streams int }
	clitest.Must(t, "replay", archive, "--nats-url", url, "--streams", "5", "--rows", "16", "--json").Parse(t, &published)
	if published.Rows != 24*40 || published.Streams != 5 || published.Messages != 24*3 {
		t.Errorf("replay --json gives %+v, want 24 series of 40 rows in 3 messages each", published)
	}
	for n := range 24 {
		select {
		case p := <-lines:
			if p.Class != "fast" && p.Class != "slow" || p.Row != 7 {
				t.Errorf("prediction %+v, want class fast or slow after row 7 of the last message", p)
			}
		case <-time.After(pipelinetest.Patience):
			t.Fatalf("%d of 24 predictions after %v:\n%s", n, pipelinetest.Patience, stage.Messages())
		}
	}
	r := clitest.Must(t, "replay", archive, "--nats-url", url, "--streams", "5", "--rows", "16", "--resume")
	if !strings.Contains(r.Out, "72 messages were already stored") {
		t.Errorf("replay --resume of all that is there says:\n%s", r.Out)
	}
	if out := clitest.Must(t, "doctor", "--nats-url", url).Out; !strings.Contains(out, `job "eusn" takes messages on sensors.*, 4 partitions, in any of the formats (auto). A message on a longer subject, such as sensors.hall2.pump7, is not stored`) || !regexp.MustCompile(`(?m)^ok       consumers EUSN-IN has [1-9] of at most 65536, EUSN-OUT has \d of at most 65536\.$`).MatchString(out) {
		t.Errorf("doctor says\n%s", out)
	}
	otherwise := clitest.Write(t, filepath.Join(dir, "otherwise.yaml"), "input:\n  format: csv\n")
	if out := clitest.Must(t, "doctor", "-c", otherwise, "--nats-url", url).Out; !strings.Contains(out, "another way, with which run is refused: in the job, ") {
		t.Errorf("doctor says of another format\n%s", out)
	}
	if out := clitest.Must(t, "doctor", "-c", otherwise, "--nats-url", url, "--job", "other").Out; !strings.Contains(out, `a new job "other" would take messages on sensors.*, read as {"format":"csv"`) {
		t.Errorf("doctor says of a job that is not there\n%s", out)
	}

	port := url[strings.LastIndexByte(url, ':')+1:]
	clitest.Exec(t, t.Context(), "run", "--model", model, "--dir", data, "--port", "0").Want(t, cli.ExitFailure, "in use by process", data)
	clitest.Must(t, "status", "--partitions", "--dir", data)
	clitest.Exec(t, t.Context(), "run", "--model", model, "--dir", filepath.Join(dir, "other"), "--port", port).Want(t, cli.ExitFailure, "address already in use", "try:")
	clitest.Exec(t, t.Context(), "run", "--model", model, "--nats-url", url, "--partitions", "8").Want(t, cli.ExitFailure, "partitions")
	other := filepath.Join(dir, "network")
	clitest.Must(t, "train", archive, "--output", other, "--members", "2", "--units", "8", "--seed", "77")
	clitest.Exec(t, t.Context(), "run", "--model", other, "--nats-url", url, "--partitions", "4").Want(t, cli.ExitOtherModel,
		"runs with another network", "m.safetensors", "nothing was claimed", "try: eusn-stream model show active")
	clitest.Exec(t, t.Context(), "replay", "none.parquet", "--nats-url", url).Want(t, cli.ExitFailure, "none.parquet")
	stage.Stop(t).Want(t, cli.ExitOK, "stopped: 72 messages with 960 samples processed, 24 predictions committed, 0 dead letters")
	// A failed stage stops its server, and reports it: other programs use the server.
	r = clitest.Exec(t, t.Context(), "run", "--model", other, "--dir", data, "--port", port)
	r.Want(t, cli.ExitOtherModel, `level=ERROR msg="the embedded NATS server ends with its stage: producers, gateways and devices have no server until the next start" url=nats://127.0.0.1:`+port)
}

// Samples of two channels for a model of three: each message is a dead letter with the
// reason, and nothing else stops.
func TestReplayWrongChannels(t *testing.T) {
	t.Parallel()
	two, three, dir := clitest.ImportTiny(t, 2), clitest.ImportTiny(t, 3), t.TempDir()
	model := filepath.Join(dir, "m")
	clitest.Must(t, "train", three, "--output", model, "--members", "2", "--units", "5")
	stage := clitest.Start(t, "reading sensors.*", "run", "--model", model, "--dir", filepath.Join(dir, "data"), "--port", "-1", "--partitions", "2")
	url := clitest.ServerURL.FindString(stage.Messages())
	clitest.Must(t, "replay", two, "--nats-url", url, "--streams", "3")
	clitest.Await(t, url, 0, 24)
	listed := func(args ...string) []string {
		t.Helper()
		return strings.Split(strings.TrimSpace(clitest.Must(t, append([]string{"deadletter", "list", "--nats-url", url}, args...)...).Out), "\n")
	}
	all := listed("--reason", "schema", "--since", "1h", "--unsent")
	key := strings.Fields(all[0])[2]
	key = key[strings.LastIndexByte(key, '.')+1:]
	of := listed("--key", key)
	if len(all) != 24 || len(of) == 0 || len(of) == 24 || listed("--until", "1h")[0] != "" || clitest.Must(t, "deadletter", "list", "--until", "1h", "--nats-url", url).ErrOut != "no dead letters\n" {
		t.Errorf("%d dead letters listed, %d of key %s:\n%s", len(all), len(of), key, all)
	}
	if r := clitest.Must(t, "deadletter", "resend", "--all", "--key", key, "--dry-run", "--nats-url", url); strings.Count(r.Out, "\n") != len(of) || !strings.Contains(r.ErrOut, fmt.Sprint(len(of), " dead letters would be published")) {
		t.Errorf("resend --dry-run prints\n%s%s", r.Out, r.ErrOut)
	}
	if sent := listed("--key", key); !slices.Equal(sent, of) {
		t.Errorf("after resend --dry-run of key %s:\n%s", key, strings.Join(sent, "\n"))
	}
	clitest.Must(t, "deadletter", "resend", "--all", "--key", key, "--nats-url", url)
	clitest.Await(t, url, 0, 24+len(of))
	if sent := listed("--key", key); len(sent) != 2*len(of) || !strings.Contains(sent[0], "[sent again ") || !strings.Contains(sent[len(of)], ", sent again)") {
		t.Errorf("after a replay of key %s:\n%s", key, strings.Join(sent, "\n"))
	}
	number := strings.Fields(of[0])[0]
	unsent := clitest.Must(t, "deadletter", "resend", "--all", "--dry-run", "--nats-url", url).Out
	copyLetter(t, url, number)
	if now := clitest.Must(t, "deadletter", "resend", "--all", "--dry-run", "--nats-url", url).Out; now != unsent {
		t.Errorf("the second dead letter of a message that was sent again would be sent:\n%s", now)
	}
	clitest.Exec(t, t.Context(), "deadletter", "resend", number, "--nats-url", url).Want(t, cli.ExitFailure, "dead letter "+number+" was sent again", "try: --again")
	clitest.Exec(t, t.Context(), "deadletter", "resend", "99999", "--nats-url", url).Want(t, cli.ExitFailure, "there is no dead letter 99999")
	clitest.Exec(t, t.Context(), "deadletter", "resend", "--nats-url", url).Want(t, cli.ExitUsage, "--all")
	clitest.Exec(t, t.Context(), "deadletter", "list", "--since", "yesterday", "--nats-url", url).Want(t, cli.ExitUsage, "--since \"yesterday\"")
	stage.Stop(t).Want(t, cli.ExitOK, fmt.Sprint(24+len(of), " dead letters"), "0 predictions")
}

// copyLetter stores a dead letter a second time, as a worker that was killed before its commit.
func copyLetter(t *testing.T, url, number string) {
	t.Helper()
	seq, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	clitest.OnServer(t, url, func(js jetstream.JetStream) error {
		s, err := js.Stream(t.Context(), "EUSN-DLQ")
		if err != nil {
			return err
		}
		m, err := s.GetMsg(t.Context(), seq)
		if err != nil {
			return err
		}
		m.Header.Del(nats.MsgIdHdr)
		_, err = js.PublishMsg(t.Context(), &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data})
		return err
	})
}

// A recording keeps its streams, ends and times.
func TestReplayRecording(t *testing.T) {
	t.Parallel()
	archive, dir := clitest.ImportTiny(t, 1), t.TempDir()
	model := filepath.Join(dir, "m")
	clitest.Must(t, "train", archive, "--output", model, "--members", "2", "--units", "5")
	var csv strings.Builder
	csv.WriteString("stream,seq,c0,end\n")
	for k := range 30 {
		for _, s := range []string{"left", "right"} {
			fmt.Fprintf(&csv, "%s,%d,%.3f,%v\n", s, k, math.Sin(float64(k)), k%10 == 9)
		}
	}
	recording := filepath.Join(dir, "r.parquet")
	clitest.Must(t, "import", clitest.Write(t, filepath.Join(dir, "r.csv"), csv.String()), "--output", recording)
	stage := clitest.Start(t, "reading sensors.*", "run", "--model", model, "--dir", filepath.Join(dir, "data"), "--port", "-1", "--partitions", "2")
	url := clitest.ServerURL.FindString(stage.Messages())
	clitest.Exec(t, t.Context(), "replay", recording, "--nats-url", url, "--speed", "1x").Want(t, cli.ExitFailure, "it has no times", "--send-rate N")
	clitest.Must(t, "replay", recording, "--nats-url", url)
	clitest.Await(t, url, 6, 0)
	stage.Stop(t).Want(t, cli.ExitOK, "60 samples processed, 6 predictions")
}

func TestReplayInterrupted(t *testing.T) {
	t.Parallel()
	archive, dir := clitest.ImportTiny(t, 1), t.TempDir()
	model := filepath.Join(dir, "m")
	clitest.Must(t, "train", archive, "--output", model, "--members", "2", "--units", "5")
	stage := clitest.Start(t, "reading sensors.*", "run", "--model", model, "--dir", filepath.Join(dir, "data"), "--port", "-1", "--partitions", "2")
	url := clitest.ServerURL.FindString(stage.Messages())
	ctx, stop := context.WithCancel(t.Context())
	go func() { defer stop(); clitest.AwaitInput(t, url) }() // the replay takes 4 s: it is stopped on the way
	r := clitest.Exec(t, ctx, "replay", archive, "--nats-url", url, "--speed", "1x", "--send-rate", "10", "--rows", "4", "--streams", "24")
	r.Want(t, cli.ExitInterrupted, "interrupted:", "--resume")
	r = clitest.Must(t, "replay", archive, "--nats-url", url, "--rows", "4", "--streams", "24", "--resume")
	if !strings.Contains(r.Out, "were already stored") {
		t.Errorf("resuming says:\n%s", r.Out)
	}
	clitest.Await(t, url, 24, 0)
	stage.Stop(t).Want(t, cli.ExitOK, "960 samples processed, 24 predictions", "0 dead letters")
}

// A password in the URL must not come back in the messages.
func TestPasswordsAreNotTold(t *testing.T) {
	t.Parallel()
	archive, model := clitest.ImportTiny(t, 1), filepath.Join(t.TempDir(), "m.safetensors")
	clitest.Must(t, "train", archive, "--members", "1", "--output", model)
	const url = "nats://someone:hunter2@127.0.0.1:1"
	const unreadable = "nats://someone:hunter2%zz@127.0.0.1:1" // a URL wants %25
	for _, args := range [][]string{
		{"run", "--model", model, "--nats-url", unreadable},
		{"doctor", "--nats-url", unreadable},
		{"run", "--model", model, "--nats-url", url},
		{"replay", archive, "--nats-url", url},
		{"doctor", "--nats-url", url},
	} {
		r := clitest.Exec(t, t.Context(), args...)
		r.Want(t, cli.ExitUnreachable, "cannot connect")
		if strings.Contains(r.ErrOut+r.Out, "hunter2") {
			t.Errorf("%s tells the password:\n%s%s", args[0], r.ErrOut, r.Out)
		}
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "nats://" + l.Addr().String()
	l.Close() // no listener is left there
	archive, dir := clitest.ImportTiny(t, 1), t.TempDir()
	model := filepath.Join(dir, "m")
	clitest.Must(t, "train", archive, "--output", model, "--members", "2", "--units", "5")
	clitest.Exec(t, t.Context(), "run", "--model", model, "--nats-url", url).Want(t, cli.ExitUnreachable, url, "try: eusn-stream doctor")
	clitest.Exec(t, t.Context(), "replay", archive, "--nats-url", url).Want(t, cli.ExitUnreachable, url, "try: eusn-stream doctor")
	clitest.Exec(t, t.Context(), "run", "--model", filepath.Join(dir, "none")).Want(t, cli.ExitFailure, "none", "try: eusn-stream train")
	clitest.Exec(t, t.Context(), "run", "--model", model, "--non-finite", "ignore").Want(t, cli.ExitConfig, "--non-finite", "reject, hold or zero")
}

// An unwritable directory. Root can write everywhere, so for root a plain file has its
// name.
func TestReadOnlyDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "d")
	if os.Geteuid() == 0 {
		clitest.Write(t, dir, "")
	} else if err := os.Mkdir(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	inside := filepath.Join(dir, "data")
	clitest.Exec(t, t.Context(), "demo", "--dir", inside).Want(t, cli.ExitFailure, dir, "try: eusn-stream demo --dir ANOTHER")
	archive := clitest.ImportTiny(t, 1)
	model := filepath.Join(t.TempDir(), "m")
	clitest.Must(t, "train", archive, "--output", model, "--members", "1", "--units", "5")
	clitest.Exec(t, t.Context(), "run", "--model", model, "--dir", inside).Want(t, cli.ExitFailure, inside, "try:")
	clitest.Exec(t, t.Context(), "train", archive, "--output", filepath.Join(dir, "m"), "--members", "1", "--units", "5").Want(t, cli.ExitFailure, dir)
}
