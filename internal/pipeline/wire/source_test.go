package wire

import (
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/codec"
)

// entryWith returns a stored entry with a source.
func entryWith(t testing.TB, s Source) (Header, []byte) {
	t.Helper()
	enc, err := codec.NewPredictionEncoder(codec.PredictionMeta{Labels: []string{"a", "b"}, Columns: 1})
	if err != nil {
		t.Fatal(err)
	}
	body, err := enc.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	e := Entry{Identity: Identity{Network: strings.Repeat("0", HashDigits)}, Source: s}
	return e.Header(), body
}

// An entry keeps the job whose input is read, or none.
func TestSourceOfEntry(t *testing.T) {
	for _, want := range []Source{{}, {Job: "blue", Created: "2026-01-31T08:00:00Z", From: 17}} {
		h, body := entryWith(t, want)
		if e, err := ParseEntry(h, body, "green.out.job", 1); err != nil || e.Source != want || e.Resize != (Resize{}) {
			t.Errorf("read as %+v, %v, want the source %+v alone", e, err, want)
		}
		if (h[HeaderSource] != nil) != (want.Job != "") || h[HeaderResize] != nil {
			t.Errorf("source %+v has the headers %v", want, h)
		}
	}
}

func FuzzSource(f *testing.F) {
	f.Add(Source{Job: "blue", Created: "2026-01-31T08:00:00Z", From: 17}.String())
	f.Add(`{"job":""}`)
	f.Add(`{"job":"blue","from":-1}`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parseSource(text)
		if err != nil || s.Job == "" {
			return
		}
		if back, err := parseSource(s.String()); err != nil || back != s {
			t.Fatalf("%q reads as %+v, written again as %+v, %v", text, s, back, err)
		}
	})
}
