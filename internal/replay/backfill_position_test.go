package replay

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/inlog"
)

var somewhere = backfillPosition{
	Asked: inlog.Asked{Input: "in", Range: "all", Model: "m", Settings: "s"}, Range: backfillRange{Begin: 3, First: 5, Last: 9},
	Bytes: 7, Next: inlog.Place{Seq: 6, Stored: -4}, Done: BackfillDone{Messages: 2, Reason: "ü\n"},
}

func encoded(t testing.TB, p backfillPosition, state string) []byte {
	t.Helper()
	b, err := p.encode([]byte(state))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestPosition(t *testing.T) {
	b := encoded(t, somewhere, "the state")
	p, state, err := decodePosition(b)
	if err != nil || p != somewhere || string(state) != "the state" {
		t.Errorf("read %+v, %q, %v", p, state, err)
	}
	for n := range b {
		if _, _, err := decodePosition(b[:n]); err == nil {
			t.Errorf("the first %d bytes of %d pass for a position", n, len(b))
		}
		flipped := bytes.Clone(b)
		flipped[n] ^= 4
		if _, _, err := decodePosition(flipped); err == nil {
			t.Errorf("a position with another byte %d passes", n)
		}
	}
	newer := bytes.Clone(b)
	newer[len(backfillMagic)] = 2
	if _, _, err := decodePosition(newer); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("one of a later version: %v", err)
	}
}

// The checksum is made to fit: a fuzzer would not guess the checksum.
func FuzzPosition(f *testing.F) {
	whole := encoded(f, somewhere, "the state")
	f.Add(whole[:len(whole)-sha256.Size])
	f.Add([]byte(backfillMagic + "\x01\x00\x00\x00\xff\xff\xff\xff{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		sum := sha256.Sum256(b)
		p, state, err := decodePosition(append(bytes.Clone(b), sum[:]...))
		if err == nil && (p.Bytes < 0 || len(state) > len(b)) {
			t.Errorf("read %+v with %d bytes of state", p, len(state))
		}
		if _, _, err := decodePosition(b); err == nil {
			t.Error("a position without its checksum passes")
		}
	})
}

// A growing file is locked, is continued at its position, and never belongs to another computation.
func TestOutput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	refused := func(want error) {
		t.Helper()
		if o, _, _, err := openOutput(path); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
			if err == nil {
				o.leave()
			}
		}
	}
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	there := func(want ...string) {
		t.Helper()
		var names []string
		all, _ := filepath.Glob(path + "*")
		for _, name := range all {
			names = append(names, filepath.Base(name))
		}
		if strings.Join(names, " ") != strings.Join(want, " ") {
			t.Errorf("there are %q, want %q", names, want)
		}
	}
	o, at, _, err := openOutput(path)
	if err != nil || at != nil {
		t.Fatal(at, err)
	}
	refused(ErrInUse)
	o.leave() // an empty file is removed
	there()

	o, _, _, err = openOutput(path)
	if err != nil {
		t.Fatal(err)
	}
	p := backfillPosition{}
	for _, f := range []func() error{
		func() error { return o.save(&p, nil) }, func() error { return o.write([]byte("one\n")) },
		func() error { return o.save(&p, []byte("s")) }, func() error { return o.write([]byte("two, not saved\n")) },
	} {
		if err := f(); err != nil {
			t.Fatal(err)
		}
	}
	o.leave()
	there("out.part", "out.position")
	o, at, state, err := openOutput(path)
	if err != nil || at == nil || at.Bytes != 4 || string(state) != "s" {
		t.Fatal(at, state, err)
	}
	if err := errors.Join(o.goOn(at.Bytes), o.write([]byte("2\n"))); err != nil {
		t.Fatal(err)
	}
	at.Over = true
	if err := errors.Join(o.save(at, nil), o.complete()); err != nil {
		t.Fatal(err)
	}
	o.leave()
	there("out")
	if b, _ := os.ReadFile(path); string(b) != "one\n2\n" {
		t.Errorf("the file is %q", b)
	}
	refused(ErrExists)
	there("out")
	put(path+".position", string(encoded(t, *at, "")))
	refused(ErrExists) // a kill came before it was tidied up
	there("out")

	os.Remove(path)
	put(path+".part", "whose?")
	refused(ErrRemains)
	put(path+".position", "nonsense")
	refused(ErrRemains)
	longer := somewhere
	longer.Bytes = 100
	put(path+".position", string(encoded(t, longer, "")))
	refused(ErrRemains)
	there("out.part", "out.position")

	// The error names the link, and the target of the link stays.
	elsewhere := filepath.Join(t.TempDir(), "other")
	put(elsewhere, "mine")
	os.Remove(path + ".part")
	os.Remove(path + ".position")
	if err := os.Symlink(elsewhere, path+".part"); err != nil {
		t.Fatal(err)
	}
	refused(ErrRemains)
	if _, _, _, err := openOutput(path); err == nil || !strings.Contains(err.Error(), "out.part is a symbolic link") {
		t.Errorf("of a symbolic link it says: %v", err)
	}
	if b, _ := os.ReadFile(elsewhere); string(b) != "mine" {
		t.Errorf("the file behind the link is %q", b)
	}
}

func TestAskedDiffers(t *testing.T) {
	a := somewhere.Asked
	if d := a.Differs(a); d != "" {
		t.Errorf("equal ones differ: %s", d)
	}
	for _, change := range []func(*inlog.Asked){
		func(a *inlog.Asked) { a.Input = "x" }, func(a *inlog.Asked) { a.Range = "x" }, func(a *inlog.Asked) { a.Model = "x" }, func(a *inlog.Asked) { a.Settings = "x" }, func(a *inlog.Asked) { a.From = "x" },
		func(a *inlog.Asked) { a.Streams = "x" },
	} {
		o := a
		if change(&o); a.Differs(o) == "" {
			t.Errorf("%+v passes for %+v", o, a)
		}
	}
}
