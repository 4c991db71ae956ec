package replay

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/durable"
)

// TestLinesBeforePosition: a position is on the disk only after the counted lines, and the name of the file before
// the removal of its position. Only the owner can read the file.
func TestLinesBeforePosition(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.csv")
	o, _, _, err := openOutput(path)
	if err != nil {
		t.Fatal(err)
	}
	defer o.leave()
	if st, err := os.Stat(partPath(path)); err != nil || runtime.GOOS != "windows" && st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v, want 0600", st.Mode(), err)
	}
	var kinds []string
	synced, end := int64(0), func() {}
	end = durable.Observe(func(s durable.Step) {
		kinds = append(kinds, s.Kind)
		switch {
		case s.Kind == "sync" && s.Path == partPath(path):
			synced = s.Size
		case s.Kind == "rename" && s.Path == positionPath(path) && synced != o.size:
			t.Errorf("the position counts %d bytes, of which %d are on the disk", o.size, synced)
		}
	})
	defer func() { end() }()
	for range 3 {
		if err := o.write([]byte("a line\n")); err != nil {
			t.Fatal(err)
		}
		if err := o.save(&backfillPosition{}, nil); err != nil {
			t.Fatal(err)
		}
	}
	step := []string{"sync", "sync", "rename", "folder"}
	if want := slices.Concat(step, step, step); !slices.Equal(kinds, want) {
		t.Errorf("steps %v, want %v", kinds, want)
	}
	end()
	end = durable.Observe(func(s durable.Step) {
		if _, err := os.Stat(positionPath(path)); s.Kind == "folder" && err != nil {
			t.Errorf("the position was removed before the file's name was on the disk: %v", err)
		}
		kinds = append(kinds, "complete")
	})
	if err := o.complete(); err != nil || kinds[len(kinds)-1] != "complete" {
		t.Errorf("%v, %v", err, kinds)
	}
}
