package live_test

import (
	"bytes"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
)

// A full disk: the command reports it, and continues when there is space.
func TestBackfillOnFullDisk(t *testing.T) {
	t.Parallel()
	disk, dir := t.TempDir(), t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=100k"); err != nil {
		parts.Absent(t, "diskfull", "a full disk needs the right to mount one: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	model, table := filepath.Join(dir, "m"), clitest.Write(t, filepath.Join(dir, "old.csv"), clitest.RecordingCSV(6, 6000))
	clitest.Must(t, "train", clitest.ImportTiny(t, 2), "--output", model, "--members", "1", "--units", "8")
	args := func(dir string) []string {
		return []string{"predict", table, "--model", model, "--output", filepath.Join(dir, "out.jsonl")}
	}
	clitest.Exec(t, t.Context(), args(disk)...).Want(t, cli.ExitFailure, "no space left on device", "try: free some space")
	if err := syscall.Mount("", disk, "", syscall.MS_REMOUNT, "size=20m"); err != nil {
		t.Fatal(err)
	}
	clitest.Must(t, args(disk)...)
	clitest.Must(t, args(dir)...)
	if !bytes.Equal(clitest.Read(t, filepath.Join(disk, "out.jsonl")), clitest.Read(t, filepath.Join(dir, "out.jsonl"))) {
		t.Error("what was written on a disk that was full differs")
	}
}
