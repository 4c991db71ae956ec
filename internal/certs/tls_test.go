package certs

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A listener with required client certificates accepts only clients of its authority, and a
// client accepts only servers of its own authority.
func TestClientTLS(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	created := func(name string) (ca, cert, key string) {
		authority, err := NewAuthority(name, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		signer, signerKey, err := parsePair(authority)
		if err != nil {
			t.Fatal(err)
		}
		pair, err := signCertificate(&x509.Certificate{
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		}, signer, signerKey)
		if err != nil {
			t.Fatal(err)
		}
		return file(name+".ca", authority.Cert), file(name+".pem", pair.Cert), file(name+".key", pair.Key)
	}
	ca, cert, key := created("plant")
	otherCA, otherCert, otherKey := created("other")
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	if err := RequireClients(s.TLS, ca); err != nil {
		t.Fatal(err)
	}
	s.StartTLS()
	defer s.Close()
	for _, c := range []struct {
		name, ca, cert, key string
		ok                  bool
	}{
		{"both of the plant", ca, cert, key, true},
		{"no certificate", ca, "", "", false},
		{"a certificate of another authority", ca, otherCert, otherKey, false},
		{"trust in another authority", otherCA, cert, key, false},
		{"trust in the system", "", cert, key, false},
	} {
		config, err := ClientTLS(c.ca, c.cert, c.key)
		if err != nil {
			t.Fatal(err)
		}
		client := http.Client{Transport: &http.Transport{TLSClientConfig: config}}
		res, err := client.Get(s.URL)
		if err == nil {
			res.Body.Close()
		}
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if c, err := ClientTLS("", "", ""); c != nil || err != nil {
		t.Errorf("without files: %v, %v", c, err)
	}
	empty := file("empty", nil)
	for says, files := range map[string][3]string{
		"empty holds no certificate": {empty, "", ""}, "none.pem": {filepath.Join(dir, "none.pem"), "", ""}, "does not match": {"", cert, otherKey},
	} {
		if _, err := ClientTLS(files[0], files[1], files[2]); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("want an error that says %q: %v", says, err)
		}
	}
	if err := RequireClients(&tls.Config{}, empty); err == nil {
		t.Error("a listener without authorities of clients")
	}
}
