package disk_test

import (
	"context"
	"log/slog"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/disk"
	"github.com/eusn-stream/eusn-stream/internal/cli/jobcmd"
	"github.com/eusn-stream/eusn-stream/internal/cli/server"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// The log of a running stage about its disk, and doctor's result for the job.
func TestDiskIsForetold(t *testing.T) {
	t.Parallel()
	archive, dir := clitest.ImportTiny(t, 1), t.TempDir()
	model := filepath.Join(dir, "m")
	clitest.Must(t, "train", archive, "--output", model, "--members", "1", "--units", "5")
	stage := clitest.Start(t, "reading sensors.*", "run", "--model", model, "--dir", filepath.Join(dir, "data"), "--port", "-1", "--partitions", "2")
	url := clitest.ServerURL.FindString(stage.Messages())
	c, err := config.Load("", nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.NATS.URL = url
	b, err := server.Open(t.Context(), c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var log clitest.LockedBuffer
	ctx, stop := context.WithTimeout(t.Context(), 2*pipelinetest.Patience)
	defer stop()
	done := make(chan bool)
	go func() {
		defer close(done)
		disk.Watch(ctx, slog.New(slog.NewTextHandler(&log, nil)), b, c, 300*time.Millisecond, 300*time.Millisecond)
	}()
	for !strings.Contains(log.String(), "in_gb=") { // the first line is for an idle job
		time.Sleep(20 * time.Millisecond)
		if ctx.Err() != nil {
			t.Fatalf("nothing said of the disk:\n%s", log.String())
		}
	}
	clitest.Must(t, "replay", archive, "--nats-url", url)
	for !strings.Contains(log.String(), "in_gb_a_day=") || strings.Count(log.String(), "in_gb_a_day=0 ") == strings.Count(log.String(), "in_gb_a_day=") {
		time.Sleep(20 * time.Millisecond)
		if ctx.Err() != nil {
			t.Fatalf("nothing said of what was published:\n%s", log.String())
		}
	}
	stop()
	<-done
	for _, want := range []string{"no limit on EUSN-IN (input.max_age or input.max_bytes) and EUSN-OUT (output.keep)", "limits: EUSN-DLQ by max_msgs 100000", "dlq_gb_a_day=0"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, log.String())
		}
	}
	var found []jobcmd.Finding
	clitest.Must(t, "doctor", "--json", "--nats-url", url).Parse(t, &found)
	if f := found[len(found)-1]; f.Subject != "disk" || f.Status != "note" || !strings.Contains(f.Sentence, "EUSN-IN holds") || !strings.Contains(f.Sentence, "no limit on EUSN-IN") {
		t.Errorf("doctor finds %+v", f)
	}
	for i := range 3 {
		publishJunk(t, url, i)
	}
	clitest.Await(t, url, 0, 3)
	purgeFirst(t, url)
	r := clitest.Must(t, "deadletter", "list", "--nats-url", url)
	r.Want(t, cli.ExitOK, "note: 1 older dead letters were dropped")
	if strings.Count(r.Out, "\n") != 2 {
		t.Errorf("listed:\n%s", r.Out)
	}
	stage.Stop(t).Want(t, cli.ExitOK, "3 dead letters")
}

// The start of a stage names the limits of the stored data and their keys. Beyond a limit the oldest
// messages go, and the log names them; input that a job needs stays.
func TestOldestAreDeleted(t *testing.T) {
	t.Parallel()
	archive, dir := clitest.ImportTiny(t, 1), t.TempDir()
	model, data := filepath.Join(dir, "m"), filepath.Join(dir, "data")
	clitest.Must(t, "train", archive, "--output", model, "--members", "1", "--units", "5")
	stage := clitest.Start(t, "disk: limits: EUSN-IN by ", "run", "--model", model, "--dir", data, "--port", "-1", "--partitions", "1")
	url := clitest.ServerURL.FindString(stage.Messages())
	for _, want := range []string{"(input.max_bytes; the oldest messages are deleted)", "(output.keep; ", "(dead_letters.keep; "} {
		if !strings.Contains(stage.Messages(), want) {
			t.Errorf("the start lacks %q:\n%s", want, stage.Messages())
		}
	}
	var found []jobcmd.Finding
	clitest.Must(t, "doctor", "--json", "--dir", data).Parse(t, &found)
	if f := found[len(found)-1]; !strings.Contains(f.Sentence, "limits: EUSN-IN by ") {
		t.Errorf("doctor finds %+v", f)
	}
	for range 3 {
		clitest.Must(t, "replay", archive, "--nats-url", url)
	}
	clitest.Await(t, url, 3, 0)
	for i := range 9 {
		publishJunk(t, url, i)
	}
	clitest.Await(t, url, 0, 9)
	stage.Stop(t).Want(t, cli.ExitOK, "")
	c, err := config.Load("", nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Server.Dir, c.Server.Port = data, -1
	b, err := server.Open(t.Context(), c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	nc, js, err := b.Open(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	count := func(name string) (messages uint64) {
		s, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return s.CachedInfo().State.Msgs
	}
	var log clitest.LockedBuffer
	enforce := func(limit float64, age time.Duration) {
		if err := disk.EnforceLimit(t.Context(), js, c, slog.New(slog.NewTextHandler(&log, nil)), limit, age); err != nil {
			t.Fatal(err)
		}
	}
	enforce(math.NaN(), 0)
	enforce(1e9, 0)
	if log.String() != "" {
		t.Errorf("within the limits:\n%s", log.String())
	}
	enforce(900, time.Hour)
	if n := count("EUSN-IN"); n < 9 || !strings.Contains(log.String(), "younger than 1h0m0s") {
		t.Errorf("%d young messages of input stay:\n%s", n, log.String())
	}
	enforce(900, 0)
	for _, name := range []string{"EUSN-IN", "EUSN-OUT", "EUSN-DLQ"} {
		if !strings.Contains(log.String(), "deleted, to stay within the limit\" stream="+name) {
			t.Errorf("nothing of %s is deleted:\n%s", name, log.String())
		}
		if n := count(name); n == 0 && name != "EUSN-IN" || n > 8 {
			t.Errorf("%s holds %d messages:\n%s", name, n, log.String())
		}
	}
	c.Input.MaxBytes, c.Output.Keep, c.DeadLetters.Keep = 0, 0, -1
	before := count("EUSN-OUT")
	if enforce(1, 0); count("EUSN-OUT") != before {
		t.Error("predictions were deleted without a limit")
	}
}

func publishJunk(t *testing.T, url string, n int) {
	t.Helper()
	clitest.OnServer(t, url, func(js jetstream.JetStream) error {
		_, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: "sensors.junk", Data: []byte{byte(n)}})
		return err
	})
}

// purgeFirst deletes the oldest dead letter, as the server does for newer dead letters.
func purgeFirst(t *testing.T, url string) {
	t.Helper()
	clitest.OnServer(t, url, func(js jetstream.JetStream) error {
		s, err := js.Stream(t.Context(), "EUSN-DLQ")
		if err == nil {
			err = s.Purge(t.Context(), jetstream.WithPurgeSequence(2))
		}
		return err
	})
}
