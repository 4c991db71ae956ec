package service

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A log continues after a restart, no line is split, and only the newest files remain.
func TestLogFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.log")
	const lines, limit = 60, 100
	for n := 0; n < lines; n += lines / 3 { // three processes, one after another
		l, err := openLog(path, limit)
		if err != nil {
			t.Fatal(err)
		}
		for i := range lines / 3 {
			if _, err := fmt.Fprintf(l, "line %03d\n", n+i); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var all strings.Builder
	for n := logKept; n >= 0; n-- {
		name := path
		if n > 0 {
			name = fmt.Sprint(path, ".", n)
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > limit {
			t.Errorf("%s has %d bytes, want at most %d", name, len(text), limit)
		}
		all.Write(text)
	}
	if _, err := os.Stat(fmt.Sprint(path, ".", logKept+1)); err == nil {
		t.Error("more files stay than should")
	}
	got := strings.Split(strings.TrimSpace(all.String()), "\n")
	for i, line := range got {
		if want := fmt.Sprintf("line %03d", lines-len(got)+i); line != want {
			t.Fatalf("%q, want %q: lines are lost, cut or in another order", line, want)
		}
	}
	if len(got) < 4*limit/len("line 000\n") {
		t.Errorf("only %d lines are left", len(got))
	}
}
