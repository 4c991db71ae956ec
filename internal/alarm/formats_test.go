package alarm_test

import (
	"bytes"
	"compress/gzip"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
)

var writeFormats = flag.Bool("write-formats", false, "write the files of testdata/formats that are not there")

// TestStoredState: the stored state of version 1, with alarms, counters and drift series, is
// decoded, and encoded to the same bytes. See CONTRIBUTING.md, "When a format changes".
func TestStoredState(t *testing.T) {
	path := filepath.Join("testdata", "formats", "state-1.json.gz")
	if _, err := os.Stat(path); *writeFormats && os.IsNotExist(err) {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, stateToStore(t), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := alarm.DecodeFold(stored)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.ActiveAlarms()) == 0 || len(f.Tail()) == 0 {
		t.Errorf("%d alarms are on, %d events are in the tail: the file has lost its subject", len(f.ActiveAlarms()), len(f.Tail()))
	}
	again, err := f.Encode(f.Tail()...)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := decompress(t, again), decompress(t, stored); !bytes.Equal(got, want) {
		t.Errorf("today's state is\n%.400s\nwant\n%.400s", got, want)
	}
}

// stateToStore returns a state with every kind of content.
func stateToStore(t *testing.T) []byte {
	t.Helper()
	rules, err := alarm.ParseRules(map[string]string{"sure": "drift probability, shift 1", "any": "class y"})
	if err != nil {
		t.Fatal(err)
	}
	f := alarm.NewFold("log", 0)
	var tail []alarm.Logged
	take := func(events ...alarm.Event) {
		for _, e := range events {
			judged, by := e.JudgedPlaces()
			tail = append(tail, alarm.Logged{Event: e, Judged: judged, By: by})
		}
	}
	e := f.ChangeRules(rules, "", "test", time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC))
	if _, err := f.ApplyFact(e); err != nil {
		t.Fatal(err)
	}
	take(e)
	for _, m := range driftingMessages()[:1200] {
		events, err := f.JudgeMessage(&m)
		if err != nil {
			t.Fatal(err)
		}
		take(events...)
	}
	state, err := f.Encode(tail[len(tail)-2:]...)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func decompress(t *testing.T, data []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}
