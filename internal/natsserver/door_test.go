package natsserver

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/internal/certs"
)

// An address reachable from other machines needs both a certificate and users, for NATS and
// WebSocket; without them nothing starts.
func TestOpenAddresses(t *testing.T) {
	dir := t.TempDir()
	cert, key := serverCertificate(t, dir, time.Now())
	users := []User{{Name: "a", Password: "b"}}
	for _, c := range []struct {
		o    Options
		open bool // refused without certificate and users
	}{
		{Options{}, false},
		{Options{Port: RandomPort}, false},
		{Options{Port: RandomPort, Host: "localhost"}, false},
		{Options{Port: RandomPort, Host: "::1"}, false},
		{Options{Port: RandomPort, Host: "127.0.0.2"}, false},
		{Options{Host: "0.0.0.0"}, false}, // without a port
		{Options{Port: RandomPort, Host: "0.0.0.0"}, true},
		{Options{Port: RandomPort, Host: "::"}, true},
		{Options{Port: RandomPort, Host: "10.0.0.5"}, true},
		{Options{Port: RandomPort, Host: "plant.example"}, true},
		{Options{WebSocket: ":8080"}, true},
		{Options{WebSocket: "[::]:8080"}, true},
		{Options{Port: RandomPort, WebSocket: "0.0.0.0:0"}, true},
	} {
		for _, lacks := range []string{"both", "users", "certificate", "nothing"} {
			o := c.o
			if o.Host == "" {
				o.Host = localhost
			}
			o.Log = slog.New(slog.DiscardHandler)
			if lacks == "users" || lacks == "nothing" {
				o.Cert, o.Key = cert, key
			}
			if lacks == "certificate" || lacks == "nothing" {
				o.Users = users
			}
			_, err := o.checkAccess()
			if refused := errors.Is(err, ErrOpen); refused != (c.open && lacks != "nothing") || err != nil && !refused {
				t.Errorf("host %q port %d, WebSocket %q, without %s: %v", o.Host, o.Port, o.WebSocket, lacks, err)
			}
		}
	}
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0", "0.0.0.0:0"} { // web pages can reach every address
		o := Options{Host: localhost, WebSocket: addr, Cert: cert, Key: key, Log: slog.New(slog.DiscardHandler)}
		if _, err := o.checkAccess(); !errors.Is(err, ErrWeb) && !errors.Is(err, ErrOpen) {
			t.Errorf("WebSocket at %s without users: %v", addr, err)
		}
		if o.Users = users; true {
			if _, err := o.checkAccess(); err != nil {
				t.Errorf("WebSocket at %s with users: %v", addr, err)
			}
		}
	}
	data := filepath.Join(dir, "data")
	if _, err := Start(t.Context(), Options{Dir: data, Port: RandomPort, Host: "0.0.0.0"}); !errors.Is(err, ErrOpen) {
		t.Errorf("started: %v", err)
	}
	if _, err := os.Stat(data); err == nil {
		t.Error("a server that was refused made its directory")
	}
	for _, addr := range []string{"1883", "h:", "h:http", "h:65536", "h:-1", "::1:80"} {
		o := Options{Host: localhost, WebSocket: addr, Users: users}
		if _, err := o.checkAccess(); err == nil || !strings.Contains(err.Error(), "want host:port") {
			t.Errorf("WebSocket at %q: %v", addr, err)
		}
	}
}

func serverCertificate(t *testing.T, dir string, at time.Time) (cert, key string) {
	t.Helper()
	authority, err := certs.NewAuthority("test", at)
	if err != nil {
		t.Fatal(err)
	}
	server, err := certs.NewServer(authority, certs.LocalHosts("plant", nil), at)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, data := range map[string][]byte{cert: server.Cert, key: server.Key} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// With authorities of clients, a client without a certificate is refused before its login; the
// server's own process needs no certificate.
func TestClientsNeedCertificates(t *testing.T) {
	cert, key := serverCertificate(t, t.TempDir(), time.Now())
	s, err := Start(t.Context(), Options{Dir: t.TempDir(), Port: RandomPort, Cert: cert, Key: key, ClientCA: cert, Users: []User{{Name: "a", Password: "b"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	inProcess, err := s.Connect("own", nil)
	if err != nil {
		t.Fatal(err)
	}
	inProcess.Close()
	nc, err := nats.Connect(s.URL(), nats.UserInfo("a", "b"), nats.Secure(&tls.Config{InsecureSkipVerify: true}))
	if err == nil {
		nc.Close()
		t.Error("a client without a certificate is connected")
	}
	if _, err := Start(t.Context(), Options{Dir: t.TempDir(), Port: RandomPort, Cert: cert, Key: key, ClientCA: "none.pem"}); err == nil || !strings.Contains(err.Error(), "none.pem") {
		t.Errorf("authorities in no file: %v", err)
	}
}

// An expired certificate is refused.
func TestCertificateEnds(t *testing.T) {
	o := Options{Dir: t.TempDir(), Port: InProcess}
	o.Cert, o.Key = serverCertificate(t, t.TempDir(), time.Now().Add(-certs.ServerLife-time.Hour))
	if _, err := Start(t.Context(), o); !errors.Is(err, ErrExpired) || !strings.Contains(err.Error(), o.Cert) {
		t.Errorf("with a certificate that has ended: %v", err)
	}
	dir := t.TempDir()
	cert, _ := serverCertificate(t, dir, time.Now())
	_, other := serverCertificate(t, t.TempDir(), time.Now())
	for name, o := range map[string]Options{"neither": {Cert: cert}, "does not match": {Cert: cert, Key: other}, "no such file": {Cert: "none", Key: other}} {
		o.Dir = dir
		if _, err := Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("want an error that says %q: %v", name, err)
		}
	}
}

// Clients of a running server get a renewed certificate, over NATS and over WebSocket; invalid
// files change nothing.
func TestCertificateIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	cert, key := serverCertificate(t, dir, time.Now().Add(-time.Hour))
	s, err := Start(t.Context(), Options{Dir: filepath.Join(dir, "data"), Port: RandomPort, WebSocket: "127.0.0.1:0", Cert: cert, Key: key, Users: []User{{Name: "a", Password: "b"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	serial := func(url string) string {
		var got string
		nc, err := nats.Connect(url, nats.UserInfo("a", "b"), nats.Secure(&tls.Config{InsecureSkipVerify: true, VerifyConnection: func(state tls.ConnectionState) error {
			got = state.PeerCertificates[0].SerialNumber.String()
			return nil
		}}))
		if err != nil {
			t.Fatal(err)
		}
		nc.Close()
		return got
	}
	for _, url := range []string{s.URL(), s.WebSocketURL()} {
		before := serial(url)
		if err := os.WriteFile(key, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(1100 * time.Millisecond)
		if serial(url) != before {
			t.Errorf("%s: another certificate, although the files cannot be used", url)
		}
		serverCertificate(t, dir, time.Now())
		time.Sleep(1100 * time.Millisecond)
		if serial(url) == before {
			t.Errorf("%s: the certificate is the one from before it was renewed", url)
		}
	}
}

// A browser's page of another origin cannot connect; pages of the same origin, of a listed
// origin, and programs, which send no origin, can.
func TestWebSocketOrigins(t *testing.T) {
	for _, listed := range [][]string{nil, {"https://plant.example"}} {
		s, err := Start(t.Context(), Options{Dir: t.TempDir(), WebSocket: "127.0.0.1:0", Users: []User{{Name: "a", Password: "b"}}, Origins: listed})
		if err != nil {
			t.Fatal(err)
		}
		host := strings.TrimPrefix(s.WebSocketURL(), "ws://")
		for origin, want := range map[string]bool{"": true, "http://evil.example": false, "http://" + host: listed == nil, "https://plant.example": listed != nil, "http://127.0.0.1:1": false} {
			r, err := http.NewRequest(http.MethodGet, "http://"+host, nil)
			if err != nil {
				t.Fatal(err)
			}
			for name, value := range map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Origin": origin} {
				if value != "" {
					r.Header.Set(name, value)
				}
			}
			res, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if got := res.StatusCode == http.StatusSwitchingProtocols; got != want {
				t.Errorf("origin %q with %q listed: status %d", origin, listed, res.StatusCode)
			}
		}
		s.Close()
	}
}

// Lines caused by clients without a login are limited to one per kind and minute; all other
// lines are logged.
func TestLinesAboutClients(t *testing.T) {
	var log strings.Builder
	l := newServerLog(slog.New(slog.NewTextHandler(&log, nil)), "dir")
	for i := range 100 {
		l.Errorf("127.0.0.1:%d - cid:%d - authentication error - User %q", i, i, fmt.Sprint("u - ", i))
		l.Errorf("127.0.0.1:%d - wid:%d - maximum connections exceeded", i, i)
		l.Errorf("127.0.0.1:%d - cid:%d - \"v1.2:go:name %d\" - Slow Consumer Detected", i, i, i)
	}
	l.Errorf("JetStream stream 'A > B' of another kind")
	l.Errorf("JetStream stream 'A > B' of another kind")
	if n := strings.Count(log.String(), "\n"); n != 5 {
		t.Errorf("%d lines, want 3 about clients and 2 others:\n%s", n, &log)
	}
	if args, ok := l.limitLine("127.0.0.1:7 - cid:7 - authentication error - User \"x\"", time.Now().Add(2*repeatEvery)); !ok || len(args) != 2 || args[1] != 99 {
		t.Errorf("after a while: logged %v, with %v; want it with the 99 others", ok, args)
	}
	for i := range 10 * maxKinds {
		l.Errorf("1.1.1.1:1 - cid:%d - %s error", i, strings.Repeat("x", i))
	}
	if len(l.kinds) > maxKinds {
		t.Errorf("the log remembers %d kinds", len(l.kinds))
	}
}
