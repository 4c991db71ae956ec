package certs

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func authorityFile(t *testing.T, created time.Time) string {
	t.Helper()
	pair, err := NewAuthority("test", created)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(path, append(pair.Key, pair.Cert...), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A certificate is logged in its last 30 days and after its expiry, with its configuration key.
// A missing file is logged, too.
func TestWatch(t *testing.T) {
	now := time.Now()
	for remaining, want := range map[time.Duration]string{
		31 * 24 * time.Hour: "", 29 * 24 * time.Hour: "expires soon", time.Hour: "days=0", -time.Second: "has expired",
	} {
		var log strings.Builder
		path := authorityFile(t, now.Add(remaining-AuthorityLife))
		w := NewWatch(slog.New(slog.NewTextHandler(&log, nil)), Use{"nats.tls.cert", ""}, Use{"server.tls.cert", path})
		w.logExpiring(now)
		if want == "" && log.Len() > 0 || !strings.Contains(log.String(), want) || want != "" && !strings.Contains(log.String(), path) {
			t.Errorf("%v before the end the log has %q, want %q", remaining, &log, want)
		}
		all := w.Expiries()
		if len(all) != 1 || all[0].Use != "server.tls.cert" || all[0].End.Sub(now.Add(remaining)).Abs() > time.Second {
			t.Errorf("%v before the end: %+v", remaining, all)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		log.Reset()
		if w.logExpiring(now); !strings.Contains(log.String(), "cannot be read") || !w.Expiries()[0].End.IsZero() {
			t.Errorf("without the file the log has %q", &log)
		}
	}
	if all := (*Watch)(nil).Expiries(); len(all) != 0 {
		t.Errorf("no certificates: %v", all)
	}
}
