package live_test

import (
	"bufio"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// tailOf starts "tail" and passes on its lines.
func tailOf(t *testing.T, args ...string) (lines <-chan string, stop func() clitest.Result) {
	t.Helper()
	b := clitest.Start(t, "Ctrl-C stops", append([]string{"tail"}, args...)...)
	all := make(chan string, 1000)
	go func() {
		for in := bufio.NewScanner(b.Out); in.Scan(); {
			all <- in.Text()
		}
	}()
	return all, func() clitest.Result { return b.Stop(t) }
}

// tail prints a real stage's predictions: live, since a time, of one stream; and the
// job is unchanged afterwards.
func TestTail(t *testing.T) {
	t.Parallel()
	archive, dir := clitest.ImportTiny(t, 2), t.TempDir()
	model := filepath.Join(dir, "m.safetensors")
	clitest.Must(t, "train", archive, "--output", model, "--members", "2", "--units", "8")
	server, err := natsserver.Start(t.Context(), natsserver.Options{Dir: filepath.Join(dir, "data"), Port: natsserver.RandomPort})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	url := server.URL()
	at := func(args ...string) []string { return append(args, "--nats-url", url) }

	clitest.Exec(t, t.Context(), at("tail")...).Want(t, cli.ExitFailure, "no NATS stream EUSN-OUT", "job name", "try:")
	stage := clitest.Start(t, "reading sensors.*", at("run", "--model", model, "--partitions", "2")...)
	if r := clitest.Must(t, at("tail", "--since", "1h")...); r.Out != "" {
		t.Errorf("before the first prediction tail prints:\n%s", r.Out)
	}
	begin := time.Now()
	all, stopAll := tailOf(t, at("--json")...)
	one, stopOne := tailOf(t, at("--stream", "s00003", "--since", "1h", "--follow")...)
	clitest.Must(t, at("replay", archive, "--streams", "0")...)
	clitest.Await(t, url, 24, 0)
	for n := range 24 {
		select {
		case line := <-all:
			if !strings.HasPrefix(line, `{"stream":"s000`) || !strings.Contains(line, `"stored":"`) || !strings.Contains(line, `"integrity":"complete"`) {
				t.Errorf("tail --json prints %s", line)
			}
		case <-time.After(pipelinetest.Patience):
			t.Fatalf("%d of 24 predictions after %v", n, pipelinetest.Patience)
		}
	}
	stopAll().Want(t, cli.ExitOK)
	if line := <-one; !strings.Contains(line, "Z  s00003  ") || !strings.HasSuffix(line, "  complete") {
		t.Errorf("tail --stream s00003 prints %q", line)
	}
	stopOne().Want(t, cli.ExitOK)
	if len(one) != 0 {
		t.Errorf("tail --stream s00003 prints also %q", <-one)
	}

	since := begin.UTC().Format(time.RFC3339)
	if got := clitest.Must(t, at("tail", "--since", since, "--json")...).Lines(t); len(got) != 24 {
		t.Errorf("%d predictions since %s, want 24", len(got), since)
	}
	if r := clitest.Must(t, at("tail", "--since", "0s")...); r.Out != "" || !strings.Contains(r.ErrOut, "no predictions since ") {
		t.Errorf("tail --since 0s prints:\n%s", r.Out)
	}
	clitest.Exec(t, t.Context(), at("tail", "--since", "yesterday")...).Want(t, cli.ExitUsage, `--since "yesterday"`, "tail --help")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	clitest.Exec(t, gone, at("tail", "--since", "1h")...).Want(t, cli.ExitInterrupted, "interrupted")
	clitest.OnServer(t, url, func(js jetstream.JetStream) error {
		out, err := js.Stream(t.Context(), "EUSN-OUT")
		if err != nil {
			return err
		}
		for c := range out.ListConsumers(t.Context()).Info() {
			if c.Config.Durable != "" || !c.Config.MemoryStorage || c.Config.InactiveThreshold > time.Minute {
				t.Errorf("tail leaves the consumer %+v", c.Config)
			}
		}
		return nil
	})
	stage.Stop(t).Want(t, cli.ExitOK, "24 predictions committed", "0 dead letters")
	testTailHostile(t, url, begin)
}

// testTailHostile: messages that are no predictions are skipped and reported, and the
// text of a prediction stays one line without terminal control.
func testTailHostile(t *testing.T, url string, begin time.Time) {
	enc, err := codec.NewPredictionEncoder(codec.PredictionMeta{Labels: []string{"a", "b c"}})
	if err != nil {
		t.Fatal(err)
	}
	body, err := enc.Encode([]codec.Prediction{{Stream: "evil\x1b[2J\nfake  line", Answer: outcome.Answer{Class: 1, Score: 2, Flags: outcome.FlagGap}}})
	if err != nil {
		t.Fatal(err)
	}
	clitest.OnServer(t, url, func(js jetstream.JetStream) error {
		for _, m := range []*nats.Msg{
			{Subject: "eusn.out.0", Data: []byte("hello")},
			{Subject: "eusn.out.else", Data: body},
			{Subject: "eusn.out.1", Data: body, Header: nats.Header{"Eusn-In-Seq": {"1"}, "Eusn-Outs": {"1"}}},
			{Subject: "eusn.out.0", Data: body}, // the last message, without its headers
		} {
			if _, err := js.PublishMsg(t.Context(), m); err != nil {
				return err
			}
		}
		return nil
	})
	since := begin.UTC().Format(time.RFC3339)
	r := clitest.Must(t, "tail", "--since", since, "--nats-url", url)
	lines := strings.Split(strings.TrimSuffix(r.Out, "\n"), "\n")
	want := `Z  "evil\x1b[2J\nfake  line"  "b c"  score 2  gap (gap)`
	if last := lines[len(lines)-1]; len(lines) != 25 || !strings.HasSuffix(last, want) {
		t.Errorf("%d lines, want 25; the last one is %q, want it to end in %q", len(lines), last, want)
	}
	r.Want(t, cli.ExitOK, "message skipped")
}
