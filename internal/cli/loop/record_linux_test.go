package loop_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
)

// A full disk: the command reports it, and continues when there is space.
func TestRecordOnFullDisk(t *testing.T) {
	t.Parallel()
	disk, dir := t.TempDir(), t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=40k"); err != nil {
		parts.Absent(t, "diskfull", "a full disk needs the right to mount one: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	model, archive := filepath.Join(dir, "m"), filepath.Join(dir, "old.parquet")
	clitest.Must(t, "train", clitest.ImportTiny(t, 2), "--output", model, "--members", "1", "--units", "8")
	clitest.Must(t, "import", clitest.Write(t, filepath.Join(dir, "old.csv"), strings.ReplaceAll(clitest.RecordingCSV(6, 2000), "m ", "m")), "--output", archive)
	stage := clitest.Start(t, "reading sensors.*", "run", "--model", model, "--dir", filepath.Join(dir, "data"), "--port", "-1")
	url := clitest.ServerURL.FindString(stage.Messages())
	clitest.Must(t, "replay", archive, "--nats-url", url)
	args := func(dir string) []string {
		return []string{"record", "--model", model, "--nats-url", url, "--until", "now", "--json", "--output", filepath.Join(dir, "out")}
	}
	clitest.Exec(t, t.Context(), args(disk)...).Want(t, cli.ExitFailure, "no space left on device", `"try":"free some space`)
	if left := clitest.Leftovers(t, filepath.Join(disk, "out"), ".lock"); len(left) > 0 {
		t.Errorf("on the full disk there is %q", left)
	}
	if err := syscall.Mount("", disk, "", syscall.MS_REMOUNT, "size=20m"); err != nil {
		t.Fatal(err)
	}
	var full, calm struct {
		Samples     float64
		Fingerprint string
	}
	clitest.Must(t, args(disk)...).Parse(t, &full)
	clitest.Must(t, args(dir)...).Parse(t, &calm)
	if full != calm || full.Samples != 12000 {
		t.Errorf("on a disk that was full %+v, else %+v", full, calm)
	}
	stage.Stop(t)
}
