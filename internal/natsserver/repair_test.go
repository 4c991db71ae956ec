package natsserver_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/eusn-stream/eusn-stream/internal/natsserver"
)

// Possibly damaged files stay unchanged.
func TestChecksumsLeftAlone(t *testing.T) {
	t.Parallel()
	whole := `{"Created":"2026-01-02T03:04:05Z","name":"S"}`
	for name, c := range map[string]struct{ inf, sum, key string }{
		"cut short":              {inf: whole[:20]},
		"empty":                  {inf: " "},
		"of another NATS stream": {inf: `{"Created":"2026-01-02T03:04:05Z","name":"T"}`},
		"without a time":         {inf: `{"name":"S"}`},
		"encrypted":              {inf: whole, key: "k"},
		"changed since":          {inf: whole, sum: "0123456789abcdef"},
	} {
		store := filepath.Join(t.TempDir(), "a[b]*")
		dir := filepath.Join(store, "jetstream", "$G", "streams", "S")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, f := range []struct{ name, text string }{{server.JetStreamMetaFile, c.inf}, {server.JetStreamMetaFileKey, c.key}, {server.JetStreamMetaFileSum, c.sum}} {
			if f.text != "" {
				if err := os.WriteFile(filepath.Join(dir, f.name), []byte(f.text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got, err := natsserver.Repair(store); len(got) > 0 || err != nil {
			t.Errorf("%s: repaired %v, %v", name, got, err)
		}
		if got, _ := os.ReadFile(filepath.Join(dir, server.JetStreamMetaFileSum)); string(got) != c.sum {
			t.Errorf("%s: the checksum is %q now, was %q", name, got, c.sum)
		}
		if name != "cut short" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, server.JetStreamMetaFile), []byte(whole), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := natsserver.Repair(store); len(got) != 1 || got[0] != dir || err != nil {
			t.Errorf("a whole one: repaired %v, %v", got, err)
		}
		if got, err := natsserver.Repair(store); len(got) != 0 || err != nil {
			t.Errorf("once more: repaired %v, %v", got, err)
		}
	}
	if got, err := natsserver.Repair(filepath.Join(t.TempDir(), "nothing")); len(got) > 0 || err != nil {
		t.Errorf("no store: %v, %v", got, err)
	}
}

// Repair refuses the store of a running server.
func TestRepairLeavesARunningStoreAlone(t *testing.T) {
	dir := t.TempDir()
	s, err := natsserver.Start(t.Context(), natsserver.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := natsserver.Repair(dir); err == nil || !strings.Contains(err.Error(), "in use by process") {
		t.Errorf("the store of a running server: %v, want that it is in use", err)
	}
	s.Close()
	if got, err := natsserver.Repair(dir); len(got) > 0 || err != nil {
		t.Errorf("after its end: %q, %v", got, err)
	}
}
