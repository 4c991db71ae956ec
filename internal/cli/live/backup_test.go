package live_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
)

// TestBackup follows "Backup and restore" of docs/durability.md: the copy of a stopped
// stage's data directory replaces a data directory that was destroyed later, producers
// resend the later messages, and the job has each prediction once, with the same bits.
func TestBackup(t *testing.T) {
	t.Parallel()
	archive, dir := clitest.ImportTiny(t, 2), t.TempDir()
	model, data, backup := filepath.Join(dir, "m.safetensors"), filepath.Join(dir, "data"), filepath.Join(dir, "backup")
	clitest.Must(t, "train", archive, "--output", model, "--members", "2", "--units", "8")
	start := func() (stop func(), url string) {
		stage := clitest.Start(t, "reading sensors.*", "run", "--model", model, "--dir", data, "--port", "-1", "--partitions", "4")
		return func() { stage.Stop(t).Want(t, cli.ExitOK, "stopped:") }, clitest.ServerURL.FindString(stage.Messages())
	}
	replay := []string{"replay", archive, "--rows", "4", "--streams", "5", "--resume", "--nats-url"}
	finish := func(url string) map[string][]string {
		clitest.Must(t, append(replay, url)...)
		clitest.Await(t, url, 24, 0)
		return answers(t, url, "eusn")
	}

	stop, url := start()
	ctx, interrupt := context.WithCancel(t.Context())
	go func() { defer interrupt(); clitest.AwaitInput(t, url) }() // sequences are open when the stage stops
	clitest.Exec(t, ctx, append(replay, url, "--speed", "1x", "--send-rate", "10")...).Want(t, cli.ExitInterrupted, "--resume")
	stop()
	if err := os.CopyFS(backup, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}

	stop, url = start()
	before := finish(url)
	stop()
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(data, os.DirFS(backup)); err != nil {
		t.Fatal(err)
	}

	stop, url = start()
	if n := count(answers(t, url, "eusn")); n >= 24 {
		t.Errorf("the backup has %d predictions: nothing was lost with the data directory", n)
	}
	after := finish(url)
	stop()
	if count(after) != 24 || !maps.EqualFunc(before, after, slices.Equal) {
		t.Errorf("after the restore %d predictions: %v\nbefore %d: %v", count(after), after, count(before), before)
	}
}
