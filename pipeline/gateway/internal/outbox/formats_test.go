package outbox

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var writeFormats = flag.Bool("write-formats", false, "write the outboxes of testdata/formats that are not there")

// storedBoot stands for the start of the machine on which the stored outboxes were
// written.
const storedBoot = "00000000-0000-4000-8000-000000000001"

// written makes the outbox of which testdata/formats has the bytes, and ends as a
// killed gateway does.
func written(t *testing.T, dir string) {
	t.Helper()
	bootID = func() string { return storedBoot }
	l, _ := open(t, dir)
	if err := l.SetInput("1700000000000000000"); err != nil {
		t.Fatal(err)
	}
	a := put(t, l, "sensors.a", 1, 1)
	put(t, l, "sensors.a", 2, 2)
	put(t, l, "sensors.b", 1, 3)
	if err := l.Done(a); err != nil {
		t.Fatal(err)
	}
	c := &Batch{Subject: "sensors.c", Incarnation: "J", Seq: 7, Payload: []byte("c 7"), Unreadable: "json: no c0"}
	c.Add(Origin{"left", 9, 7, 8, false, false}, l.Sessions)
	if err := l.Put(c); err != nil {
		t.Fatal(err)
	}
	if err := l.Forget("left"); err != nil {
		t.Fatal(err)
	}
	l.Close()
	l, _ = open(t, dir)
	if err := l.End(); err != nil {
		t.Fatal(err)
	}
	l.Close()
}

// Outboxes as earlier programs have left them: what waits, the numbers and the
// sessions are read as what they were. Today's program writes the newest to the
// byte. No file there is ever written again; see CONTRIBUTING.md, "When a format
// changes".
func TestStoredOutboxes(t *testing.T) {
	boot := bootID
	defer func() { bootID = boot }()
	for _, c := range []struct {
		name         string
		writtenAlike bool
		why          string // the batch of sensors.c
		doubt        bool   // whether the end of the outbox may be missing is not said
	}{{"outbox-1", false, "", true}, {"outbox-2", true, "json: no c0", false}} {
		stored := filepath.Join("testdata", "formats", c.name)
		if _, err := os.Stat(stored); *writeFormats && os.IsNotExist(err) {
			written(t, stored)
			if err := os.Remove(filepath.Join(stored, "lock")); err != nil {
				t.Fatal(err)
			}
		}
		dir := filepath.Join(t.TempDir(), "outbox")
		if err := os.CopyFS(dir, os.DirFS(stored)); err != nil {
			t.Fatal(err)
		}
		bootID = func() string { return "another" }
		l, left := open(t, dir)
		if len(left) != 3 || left[0].Subject != "sensors.a" || left[0].Seq != 2 || left[1].Subject != "sensors.b" || left[2].Unreadable != c.why || l.Input != "1700000000000000000" {
			t.Fatalf("%s: %d batches wait, the first %+v, of input %q", c.name, len(left), left[0], l.Input)
		}
		for i, want := range []string{"sensors.a 2", "sensors.b 1", "c 7"} {
			if p, err := l.Payload(left[i]); err != nil || string(p) != want {
				t.Errorf("%s: payload %q (%v), want %q", c.name, p, err, want)
			}
		}
		for subject, want := range map[string]Number{"sensors.a": {"I", 2, c.doubt}, "sensors.b": {"I", 1, c.doubt}, "sensors.c": {"J", 7, c.doubt}} {
			if n := l.Number(subject); n != want {
				t.Errorf("%s: the number of %s is %+v, want %+v", c.name, subject, n, want)
			}
		}
		for id, batch := range map[uint64]*Batch{1: nil, 2: left[0], 3: left[1]} {
			if e, _ := l.Sessions.Find(Origin{"s", id, 7, 8, false, false}); e == nil || e.Batch != batch {
				t.Errorf("%s: message %d of the device: %+v", c.name, id, e)
			}
		}
		if l.Sessions.all["left"] != nil {
			t.Errorf("%s: a session that was forgotten is there", c.name)
		}
		l.Close()
		if c.writtenAlike {
			sameBytes(t, stored)
		}
	}
}

// sameBytes wants today's outbox of the same batches to have the bytes stored.
func sameBytes(t *testing.T, stored string) {
	t.Helper()
	dir := t.TempDir()
	written(t, dir)
	numbers, err := segmentNumbers(stored)
	if err != nil || len(numbers) == 0 {
		t.Fatalf("%s: segments %v (%v)", stored, numbers, err)
	}
	for _, n := range numbers {
		l := Log{dir: stored}
		want, err := os.ReadFile(l.path(n))
		if err != nil {
			t.Fatal(err)
		}
		l.dir = dir
		if got, err := os.ReadFile(l.path(n)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s, segment %d: today's has other bytes (%v)", stored, n, err)
		}
	}
}
