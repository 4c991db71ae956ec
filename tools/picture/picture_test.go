package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The picture in the README equals the program's drawing: the same bytes from a new run,
// with another server, another training and another kill.
func TestPicture(t *testing.T) {
	program := filepath.Join(t.TempDir(), "eusn-stream.exe")
	if out, err := exec.Command("go", "build", "-o", program, "../../cmd/eusn-stream").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	got, err := paint(t.Context(), program)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("../../docs/picture.svg")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/picture.svg is not what the program draws now: make picture, look at it, and commit it")
	}
}
