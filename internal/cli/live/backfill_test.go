package live_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/planttest"
)

// predictionKeys returns prediction lines without the fields that differ between
// readings, sorted.
func predictionKeys(t *testing.T, lines []map[string]any) []string {
	t.Helper()
	var keys []string
	for _, l := range lines {
		for _, name := range []string{"stored", "input", "received", "tokens"} {
			delete(l, name)
		}
		b, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, string(b))
	}
	slices.Sort(keys)
	return keys
}

func linesIn(t *testing.T, path string) []map[string]any {
	t.Helper()
	return clitest.Result{Out: string(clitest.Read(t, path))}.Lines(t)
}

// Old data predicted next to a running stage: from its log, from an archive and from a
// CSV file, in processes that are killed (kill -9). The lines equal the live
// predictions, each once, and the files equal those of an undisturbed command.
func TestBackfill(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("NOT CHECKED: killed programs take seconds, -short was given")
	}
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	model, table, archive := in("m.safetensors"), in("old.csv"), in("old.parquet")
	clitest.Must(t, "train", clitest.ImportTiny(t, 2), "--output", model, "--members", "2", "--units", "8")
	clitest.Write(t, table, strings.ReplaceAll(clitest.RecordingCSV(6, 6000), "m ", "m"))
	clitest.Must(t, "import", table, "--output", archive)
	server, err := natsserver.Start(t.Context(), natsserver.Options{Dir: in("data"), Port: natsserver.RandomPort})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	url := server.URL()
	stage := clitest.Start(t, "reading sensors.*", "run", "--model", model, "--partitions", "3", "--nats-url", url)
	clitest.Must(t, "replay", archive, "--nats-url", url)
	const want = 6 * 6000 / 40
	clitest.Await(t, url, want, 0)
	live := predictionKeys(t, clitest.Must(t, "tail", "--since", "1h", "--json", "--nats-url", url).Lines(t))
	if len(live) != want {
		t.Fatalf("%d predictions live, want %d", len(live), want)
	}

	// The stage continues to work in parallel.
	load := make(chan clitest.Result)
	go func() {
		load <- clitest.Exec(t, context.Background(), "replay", archive, "--nats-url", url, "--speed", "max")
	}()
	var digests []any
	files := map[string][]string{
		"log":     {"job", "backfill", "--since", "1h", "--until", time.Now().UTC().Format(time.RFC3339Nano), "--nats-url", url},
		"archive": {"predict", archive}, "csv": {"predict", table},
	}
	for name, from := range files {
		out := in(name + ".jsonl")
		args := append(slices.Clone(from), "--model", model, "--output", out, "--progress", "none")
		kills := 1
		if name == "log" {
			kills = 3
		}
		for kill := range kills { // 36,000 samples take 4.5 s at this rate
			cmd := planttest.Command(append(args, "--limit", "8000")...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			clitest.AwaitFile(t, out+".position")
			time.Sleep(1200 * time.Millisecond) // at least one more position
			cmd.Process.Kill()
			cmd.Wait()
			if _, err := os.Stat(out + ".part"); err != nil {
				t.Fatalf("%s, kill %d: %v", name, kill, err)
			}
		}
		r := clitest.Must(t, args...)
		if got := predictionKeys(t, linesIn(t, out)); !slices.Equal(got, live) || !strings.Contains(r.ErrOut, "continuing with") {
			t.Errorf("%s: %d lines are not the %d live ones; the command says\n%s", name, len(got), len(live), r.ErrOut)
		}
		calm := in(name + "-calm.jsonl")
		var did map[string]any
		clitest.Must(t, append(slices.Clone(from), "--model", model, "--output", calm, "--json")...).Parse(t, &did)
		if !bytes.Equal(clitest.Read(t, calm), clitest.Read(t, out)) {
			t.Errorf("%s: killed and calm, the files differ", name)
		}
		digests = append(digests, did["predictions"], did["samples"], did["unusable"])
	}
	if want := []any{900., 36000., 0., 900., 36000., 0., 900., 36000., 0.}; !slices.Equal(digests, want) {
		t.Errorf("--json counts %v, want %v", digests, want)
	}
	(<-load).Want(t, cli.ExitOK)
	clitest.Await(t, url, 2*want, 0)
	stage.Stop(t).Want(t, cli.ExitOK, fmt.Sprint(2*want, " predictions committed"), "0 dead letters")

	clitest.Must(t, "job", "backfill", "--since", "start", "--model", model, "--output", in("all.csv"), "--nats-url", url)
	rows, err := csv.NewReader(bytes.NewReader(clitest.Read(t, in("all.csv")))).ReadAll()
	if err != nil || len(rows) != 2*want+1 || rows[0][0] != "stream" || rows[1][9] == "" {
		t.Errorf("%d rows of CSV, %v", len(rows), err)
	}
	clitest.Leftovers(t, dir)
}

// Every user error has a sentence and a next step.
func TestBackfillRefuses(t *testing.T) {
	t.Parallel()
	archive, dir := clitest.ImportTiny(t, 2), t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	model, wide := in("m.safetensors"), in("wide.safetensors")
	clitest.Must(t, "train", archive, "--output", model, "--members", "1", "--units", "8")
	clitest.Must(t, "train", clitest.ImportTiny(t, 3), "--output", wide, "--members", "1", "--units", "8")
	table := clitest.Write(t, in("old.csv"), clitest.RecordingCSV(2, 100))
	stage := clitest.Start(t, "reading sensors.*", "run", "--model", model, "--dir", in("data"), "--port", "-1", "--partitions", "2")
	url := clitest.ServerURL.FindString(stage.Messages())
	clitest.Must(t, "replay", archive, "--nats-url", url)
	clitest.Await(t, url, 24, 0)
	out := in("out.jsonl")
	try := func(code int, says string, args ...string) {
		t.Helper()
		if len(args) == 0 || args[0] != "predict" {
			args = append([]string{"job", "backfill", "--nats-url", url}, args...)
		}
		if !slices.Contains(args, "--output") {
			args = append(args, "--output", out)
		}
		if !slices.Contains(args, "--model") {
			args = append(args, "--model", model)
		}
		clitest.Exec(t, t.Context(), args...).Want(t, code, says, "try: ")
	}
	gap := in("gap.safetensors")
	clitest.Must(t, "train", archive, "--output", gap, "--members", "1", "--units", "8", "--policy", "gap", "--gap", "1s")
	timeless := clitest.Write(t, in("timeless.csv"), "stream,c0,c1\nold,1,2\nold,2,3\n")
	later := time.Now().Add(48 * time.Hour).UTC()
	for _, form := range []string{time.RFC3339, time.DateOnly} {
		try(cli.ExitUsage, "in the future", "--since", later.Format(form))
	}
	try(cli.ExitFailure, "no message was stored from 2001-02-03T00:00:00Z until 2001-02-04T00:00:00Z", "--since", "2001-02-03", "--until", "2001-02-04")
	try(cli.ExitUsage, "is not after --since", "--since", "1h", "--until", "2h")
	try(cli.ExitUsage, "--lead-in soon", "--since", "1h", "--lead-in", "soon")
	try(cli.ExitUsage, ".jsonl or .csv", "--since", "1h", "--output", in("out.parquet"))
	try(cli.ExitUsage, "is a file", "--since", table)
	try(cli.ExitUsage, "--limit", "--since", "1h", "--limit", "-1")
	try(cli.ExitUsage, "--since: want a value")
	try(cli.ExitFailure, "no message was stored", "--since", "0s")
	try(cli.ExitFailure, `no job "nosuch"`, "--since", "1h", "--job", "nosuch")
	try(cli.ExitFailure, "none of the first", "--since", "1h", "--model", wide)
	try(cli.ExitIntegrity, `reads channels ["c0" "c1" "c2"]`, "predict", table, "--model", wide)
	try(cli.ExitFailure, "try: --model with one that can read this, or other data", "predict", timeless, "--model", gap)
	try(cli.ExitFailure, "no such file", "predict", in("none.parquet"))
	try(cli.ExitIntegrity, `column "c1"`, "predict", clitest.Write(t, in("bad.csv"), "stream,c0,c1\nold,1,x\n"))
	try(cli.ExitFailure, "is a data set", "predict", table, archive)
	try(cli.ExitFailure, "is an input", "predict", table, "--output", table)
	try(cli.ExitFailure, "does not exist", "predict", table, "--output", in("no/out.csv"))
	clitest.Leftovers(t, dir, "data", "m.safetensors", "wide.safetensors", "old.csv", "bad.csv", "gap.safetensors", "timeless.csv")

	args := []string{"predict", table, "--model", model, "--output", out}
	slow := clitest.Start(t, "", append(args, "--limit", "20", "--progress", "none")...)
	clitest.AwaitFile(t, out+".position")
	try(cli.ExitFailure, "another program is writing it", "predict", table)
	slow.Stop(t).Want(t, cli.ExitInterrupted, "interrupted: ") // of the first message, or earlier
	try(cli.ExitFailure, "begun with something else: another model", "predict", table, "--model", wide1(t, dir))
	try(cli.ExitFailure, "another input", "--since", "1h")
	clitest.Must(t, args...)
	try(cli.ExitFailure, "exists and was not changed", "predict", table)
	if n := len(linesIn(t, out)); n != 4 {
		t.Errorf("%d predictions, want 4", n)
	}
	clitest.Must(t, "predict", archive, "--model", model, "--output", in("set.jsonl"), "--split", "train")
	if n := len(linesIn(t, in("set.jsonl"))); n != 24 {
		t.Errorf("%d predictions of a data set, want 24", n)
	}
	if r := clitest.Must(t, "job", "backfill", "--since", "1h", "--model", wide1(t, dir), "--nats-url", url, "--output", in("other.csv")); !strings.Contains(r.ErrOut, "is not the model that job eusn runs") {
		t.Errorf("with another model, it says\n%s", r.ErrOut)
	}
	clitest.OnServer(t, url, func(js jetstream.JetStream) error { // nothing of it remains on the server
		in, err := js.Stream(t.Context(), "EUSN-IN")
		if err != nil {
			return err
		}
		for c := range in.ListConsumers(t.Context()).Info() {
			if c.Config.Durable != "" || !c.Config.MemoryStorage || c.Config.InactiveThreshold > time.Minute {
				t.Errorf("backfill leaves the consumer %+v", c.Config)
			}
		}
		return nil
	})
	stage.Stop(t).Want(t, cli.ExitOK, "24 predictions committed", "0 dead letters")
}

// wide1 is another model with the same channels.
func wide1(t *testing.T, dir string) string {
	path := filepath.Join(dir, "newer.safetensors")
	if _, err := os.Stat(path); err != nil {
		clitest.Must(t, "train", clitest.ImportTiny(t, 2), "--output", path, "--members", "1", "--units", "9")
	}
	return path
}
