package durable_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/durable"
)

// TestWrite checks that the content is on the disk before the name, and the name before Write
// returns; a failed write leaves no file.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	var steps []durable.Step
	end := durable.Observe(func(s durable.Step) {
		if s.Kind == "sync" {
			if _, err := os.Stat(path); err == nil {
				t.Error("the file has its name before its content is on the disk")
			}
			s.Path = ""
		}
		steps = append(steps, s)
	})
	err := durable.Write(path, []byte("abc"), 0o600)
	end()
	if err != nil {
		t.Fatal(err)
	}
	if want := []durable.Step{{"sync", "", 3}, {"rename", path, 0}, {"folder", dir, 0}}; !reflect.DeepEqual(steps, want) {
		t.Errorf("%v, want %v", steps, want)
	}
	st, err := os.Stat(path)
	if err != nil || runtime.GOOS != "windows" && st.Mode().Perm() != fs.FileMode(0o600) {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if err := durable.Write(filepath.Join(path, "g"), nil, 0o600); err == nil {
		t.Error("a file in a file: no error")
	}
	if err := os.Mkdir(filepath.Join(dir, "taken"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := durable.Write(filepath.Join(dir, "taken"), nil, 0o600); err == nil {
		t.Error("a folder was replaced")
	}
	if all, _ := os.ReadDir(dir); len(all) != 2 {
		t.Errorf("left in the folder: %v", all)
	}
}
