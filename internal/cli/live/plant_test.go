package live_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/producer"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
)

// The sensors of a plant publish on subjects of several tokens; tail finds one sensor,
// and the sensors of a line, by the names in the input subject.
func TestPlantSubjectsAtTheCommandLine(t *testing.T) {
	t.Parallel()
	archive, dir := clitest.ImportTiny(t, 2), t.TempDir()
	model := filepath.Join(dir, "m.safetensors")
	clitest.Must(t, "train", archive, "--output", model, "--members", "1", "--units", "8")
	server, err := natsserver.Start(t.Context(), natsserver.Options{Dir: filepath.Join(dir, "data"), Port: natsserver.RandomPort})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	const subject = "plant.{site}.line.{line}.sensor.{sensor}"
	at := func(args ...string) []string { return append(args, "--nats-url", server.URL()) }
	named := func(args ...string) []string { return at(append(args, "--subject", subject)...) }
	file := func(subject string) string {
		name := filepath.Join(t.TempDir(), "plant.yaml")
		if err := os.WriteFile(name, []byte("input:\n  subject: "+subject+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for subject, says := range map[string]string{"plant.{site}.{site}": `two wildcards have the name "site"`, "eusn.>": "subjects of the job's own"} {
		clitest.Exec(t, t.Context(), at("run", "--model", model, "-c", file(subject))...).Want(t, cli.ExitFailure, says)
	}
	clitest.Exec(t, t.Context(), at("run", "--model", model, "-c", file("'*.line'"))...).Want(t, cli.ExitConfig, "input.subject", "the first one a word")
	stage := clitest.Start(t, "reading plant.{site}", at("run", "--model", model, "--partitions", "2", "-c", file(subject))...)
	nc, err := nats.Connect(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	var items []producer.Item
	for _, key := range []string{"A.3.7", "A.3.8", "A.4.7", "B.3.7"} {
		items = append(items, producer.Item{Stream: key, X: make([]float32, 2*40), End: true})
	}
	if _, err := (producer.Publisher{Subject: subject, Channels: []string{"c0", "c1"}}).Publish(t.Context(), nc, producer.FromSlice(items)); err != nil {
		t.Fatal(err)
	}
	clitest.Await(t, server.URL(), len(items), 0)
	clitest.Exec(t, t.Context(), named("replay", archive)...).Want(t, cli.ExitFailure, "cannot be a key of plant.*.line.*.sensor.*: it has 1 tokens between dots, want 3")

	for _, c := range []struct {
		args []string
		want int
	}{
		{at("--stream", "A.3.7"), 1}, {at("--stream", "*.*.7"), 3}, {at("--stream", "A.>"), 3}, {at("--stream", "A.*"), 0},
		{named("--where", "site=A"), 3}, {named("--where", "site=A,line=3"), 2}, {named("--where", "line=3", "--stream", "*.*.7"), 2},
	} {
		lines := clitest.Must(t, append([]string{"tail", "--since", "1h", "--json"}, c.args...)...).Lines(t)
		if len(lines) != c.want {
			t.Errorf("tail %v prints %q, want %d lines", c.args, lines, c.want)
		}
		for _, l := range lines {
			tokens, ok := l["tokens"].(map[string]any)
			if text := fmt.Sprint(tokens["site"], ".", tokens["line"], ".", tokens["sensor"]); ok && text != l["stream"] {
				t.Errorf("tokens %v of stream %v", tokens, l["stream"])
			}
		}
	}
	clitest.Exec(t, t.Context(), named("tail", "--since", "1h", "--where", "shop=1")...).Want(t, cli.ExitUsage, "has the names site, line, sensor", "tail --help")
	stage.Stop(t).Want(t, cli.ExitOK, "4 predictions committed")
}

// Sensors publish on several subjects of one job. The name of a stream is its whole
// subject: for tail, for a recording, which is compared with the input, and for
// repeated predictions.
func TestSeveralSubjectsAtTheCommandLine(t *testing.T) {
	archive, dir := clitest.ImportTiny(t, 2), t.TempDir()
	model := filepath.Join(dir, "m.safetensors")
	clitest.Must(t, "train", archive, "--output", model, "--members", "1", "--units", "8")
	server, err := natsserver.Start(t.Context(), natsserver.Options{Dir: filepath.Join(dir, "data"), Port: natsserver.RandomPort})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	const subject = "press.{press}.vibration mill.{line}.>"
	at := func(args ...string) []string { return append(args, "--nats-url", server.URL()) }
	file := func(subject string) string {
		name := filepath.Join(t.TempDir(), "plant.yaml")
		if err := os.WriteFile(name, []byte("input:\n  subject: "+subject+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	clitest.Exec(t, t.Context(), at("run", "--model", model, "-c", file("press.> press.*.vibration"))...).Want(t, cli.ExitFailure, "overlaps with press.>")
	stage := clitest.Start(t, "reading press.{press}.vibration mill.{line}.>", at("run", "--model", model, "--partitions", "2", "-c", file(subject))...)
	nc, err := nats.Connect(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	var items []producer.Item
	for _, key := range []string{"press.3.vibration", "press.4.vibration", "mill.A.motor.7", "mill.B.motor.7"} {
		items = append(items, producer.Item{Stream: key, X: make([]float32, 2*40), End: true})
	}
	if _, err := (producer.Publisher{Subject: subject, Channels: []string{"c0", "c1"}}).Publish(t.Context(), nc, producer.FromSlice(items)); err != nil {
		t.Fatal(err)
	}
	clitest.Await(t, server.URL(), len(items), 0)
	clitest.Exec(t, t.Context(), at("replay", archive, "--subject", subject)...).Want(t, cli.ExitFailure, "none of these takes it")
	for _, c := range []struct {
		args []string
		want int
	}{
		{at("--stream", "press.3.vibration"), 1}, {at("--stream", "press.*.vibration"), 2}, {at("--stream", "*.>"), 4},
		{at("--subject", subject, "--where", "line=A"), 1}, {at("--subject", subject, "--where", "press=3"), 1}, {at("--subject", subject, "--where", "press=3,line=A"), 0},
	} {
		if lines := clitest.Must(t, append([]string{"tail", "--since", "1h", "--json"}, c.args...)...).Lines(t); len(lines) != c.want {
			t.Errorf("tail %v prints %q, want %d lines", c.args, lines, c.want)
		}
	}
	recording, again := filepath.Join(dir, "recording"), filepath.Join(dir, "again.jsonl")
	clitest.Must(t, at("record", "--model", model, "--output", recording, "--until", "now")...)
	clitest.Must(t, at("record", "verify", recording, "--model", model)...)
	clitest.Must(t, at("job", "backfill", "--model", model, "--since", "start", "--output", again)...)
	text, err := os.ReadFile(again)
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range items {
		if n := strings.Count(string(text), strconv.Quote(it.Stream)); n != 1 {
			t.Errorf("stream %s is predicted %d times again:\n%s", it.Stream, n, text)
		}
	}
	stage.Stop(t).Want(t, cli.ExitOK, "4 predictions committed")
}
