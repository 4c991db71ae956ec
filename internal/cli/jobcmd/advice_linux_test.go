package jobcmd_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
)

// The advice of doctor for a full disk helps: another disk for a copy of the data
// directory, and free space. A nearly full disk is no problem yet, and has no advice.
func TestAdviceOfAFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=200m"); err != nil {
		parts.Absent(t, "diskfull", "a full disk needs the right to mount one: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	dir, other, ballast := filepath.Join(disk, "data"), filepath.Join(t.TempDir(), "data"), filepath.Join(disk, "ballast")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		megabytes int
		status    string
	}{{100, "ok"}, {175, "note"}, {190, "problem"}} {
		if err := os.WriteFile(ballast, make([]byte, c.megabytes<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		r := clitest.Exec(t, t.Context(), "doctor", "--dir", dir)
		full := c.status == "problem"
		if advised := strings.Contains(r.Out, "Free space on it, or use --dir with a directory on another disk"); advised != full || (r.Code == cli.ExitFailure) != full {
			t.Errorf("%d of 200 MB are used: code %d\n%s", c.megabytes, r.Code, r.Out)
		}
		if c.status == "note" && !strings.Contains(r.Out, "% of the disk are used") {
			t.Errorf("%d of 200 MB are used:\n%s", c.megabytes, r.Out)
		}
	}
	if err := os.CopyFS(other, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	clitest.Must(t, "doctor", "--dir", other)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	clitest.Must(t, "doctor", "--dir", dir)
}
