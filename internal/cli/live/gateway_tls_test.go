package live

import (
	"crypto/x509"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/certs"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// A gateway uses a renewed certificate for the next device, and does not start with an
// expired certificate.
func TestGatewayCertificate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(now time.Time) {
		t.Helper()
		authority, err := certs.NewAuthority("test", now)
		if err != nil {
			t.Fatal(err)
		}
		pair, err := certs.NewServer(authority, []string{"127.0.0.1"}, now)
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string][]byte{"cert.pem": pair.Cert, "key.pem": pair.Key} {
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	c, err := config.Load("", nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Gateway.MQTT = "127.0.0.1:0"
	c.Gateway.TLS.Cert, c.Gateway.TLS.Key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	write(time.Now().Add(-certs.ServerLife - 24*time.Hour))
	if _, err := gatewayOptions(c, slog.New(slog.DiscardHandler)); !errors.Is(err, certs.ErrExpired) {
		t.Errorf("%v, want %v", err, certs.ErrExpired)
	}
	write(time.Now())
	o, err := gatewayOptions(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	shown := func() *x509.Certificate {
		pair, err := o.access.TLS.GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return pair.Leaf
	}
	before := shown()
	write(time.Now())
	pipelinetest.Until(t, "the renewed certificate", func() bool { return !shown().Equal(before) })
}
