package outbox

import (
	"bytes"
	"errors"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/producer"
)

var writeFormats = flag.Bool("write-formats", false, "write the outboxes of testdata/formats that are not there")

// storedBoot is the boot id of the machine in the stored outboxes.
const storedBoot = "00000000-0000-4000-8000-000000000001"

// writeFiles makes the outbox in testdata/formats, and ends like a killed gateway.
func writeFiles(t *testing.T, dir string) {
	t.Helper()
	bootID = func() string { return storedBoot }
	l, _ := openLog(t, dir)
	if err := l.SetInput("1700000000000000000"); err != nil {
		t.Fatal(err)
	}
	a := putBatch(t, l, "sensors.a", 1, 1)
	putBatch(t, l, "sensors.a", 2, 2)
	putBatch(t, l, "sensors.b", 1, 3)
	if err := l.Done(a); err != nil {
		t.Fatal(err)
	}
	c := &Batch{Message: &producer.Message{Subject: "sensors.c", Incarnation: "J", Seq: 7, End: true, Payload: []byte("c 7"), Unreadable: "json: no c0"}}
	c.Add(Origin{"left", 9, 7, 8, false, false}, l.Sessions)
	if err := l.Put(c); err != nil {
		t.Fatal(err)
	}
	if err := l.Forget("left"); err != nil {
		t.Fatal(err)
	}
	l.Close()
	l, _ = openLog(t, dir)
	if err := l.End(); err != nil {
		t.Fatal(err)
	}
	l.Close()
}

// writeMoved continues the outbox of writeFiles, and moves the waiting batches.
func writeMoved(t *testing.T, dir string) {
	t.Helper()
	writeFiles(t, dir)
	l, _ := openLog(t, dir)
	if err := errors.Join(l.moveOldest(), l.End()); err != nil {
		t.Fatal(err)
	}
	l.Close()
}

// storedOutboxes are the writers of the outboxes in testdata/formats.
var storedOutboxes = map[string]func(*testing.T, string){"outbox-1": writeFiles, "outbox-1-moved": writeMoved}

// The stored outboxes of version 1 are read with their written content: waiting batches,
// numbers and sessions. The current program writes the same bytes. See CONTRIBUTING.md,
// "When a format changes".
func TestStoredOutbox(t *testing.T) {
	boot := bootID
	defer func() { bootID = boot }()
	for name, write := range storedOutboxes {
		t.Run(name, func(t *testing.T) { readStored(t, filepath.Join("testdata", "formats", name), write) })
	}
}

// readStored reads a stored outbox.
func readStored(t *testing.T, stored string, write func(*testing.T, string)) {
	t.Helper()
	if _, err := os.Stat(stored); *writeFormats && os.IsNotExist(err) {
		write(t, stored)
		if err := os.Remove(filepath.Join(stored, "lock")); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(t.TempDir(), "outbox")
	if err := os.CopyFS(dir, os.DirFS(stored)); err != nil {
		t.Fatal(err)
	}
	bootID = func() string { return "another" }
	l, left := openLog(t, dir)
	if len(left) != 3 || left[0].Message.Subject != "sensors.a" || left[0].Message.Seq != 2 || left[1].Message.Subject != "sensors.b" || left[1].Message.End || !left[2].Message.End || left[2].Message.Unreadable != "json: no c0" || l.Input != "1700000000000000000" {
		t.Fatalf("%d batches wait, the first %+v, of input %q", len(left), left[0], l.Input)
	}
	for i, want := range []string{"sensors.a 2", "sensors.b 1", "c 7"} {
		if p, err := l.Payload(left[i]); err != nil || string(p) != want {
			t.Errorf("payload %q (%v), want %q", p, err, want)
		}
	}
	for subject, want := range map[string]Number{"sensors.a": {"I", 2, false}, "sensors.b": {"I", 1, false}, "sensors.c": {"J", 7, false}} {
		if n := l.Number(subject); n != want {
			t.Errorf("the number of %s is %+v, want %+v", subject, n, want)
		}
	}
	for id, batch := range map[uint64]*Batch{1: nil, 2: left[0], 3: left[1]} {
		if e, _ := l.Sessions.Find(Origin{"s", id, 7, 8, false, false}); e == nil || e.Batch != batch {
			t.Errorf("message %d of the device: %+v", id, e)
		}
	}
	if l.Sessions.all["left"] != nil {
		t.Error("a session that was forgotten is there")
	}
	l.Close()
	sameBytes(t, stored, write)
}

// An outbox of another version is refused, and stays unchanged.
func TestOtherVersionRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "outbox-1")
	if err := os.WriteFile(path, []byte("eusn-outbox 2\nrest"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := Open(dir, nil, slog.New(slog.DiscardHandler))
	for _, want := range []string{path, `begins with "eusn-outbox 2\n"`, "reads version 1", "use the program that wrote it"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "eusn-outbox 2\nrest" {
		t.Errorf("the file is now %q, %v", text, err)
	}
}

// sameBytes wants today's outbox of the same batches to have the bytes stored.
func sameBytes(t *testing.T, stored string, write func(*testing.T, string)) {
	t.Helper()
	dir := t.TempDir()
	write(t, dir)
	numbers, err := segmentNumbers(stored)
	if err != nil || len(numbers) == 0 {
		t.Fatalf("%s: segments %v (%v)", stored, numbers, err)
	}
	for _, n := range numbers {
		l := Log{dir: stored}
		want, err := os.ReadFile(l.segmentPath(n))
		if err != nil {
			t.Fatal(err)
		}
		l.dir = dir
		if got, err := os.ReadFile(l.segmentPath(n)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s, segment %d: today's has other bytes (%v)", stored, n, err)
		}
	}
}
