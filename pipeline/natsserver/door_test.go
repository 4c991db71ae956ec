package natsserver

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"github.com/eusn-stream/eusn-stream/internal/certs"
)

// An address that others reach needs a certificate and users, each of them, for
// NATS, MQTT and WebSocket alike; and nothing is started without.
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
		{Options{MQTT: "127.0.0.1:0"}, false},
		{Options{MQTT: "localhost:0"}, false},
		{Options{MQTT: ":1883"}, true},
		{Options{MQTT: "[::]:1883"}, true},
		{Options{Port: RandomPort, WebSocket: "0.0.0.0:0"}, true},
		{Options{WebSocket: "[::1]:0"}, false},
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
			_, err := o.door()
			if refused := errors.Is(err, ErrOpen); refused != (c.open && lacks != "nothing") || err != nil && !refused {
				t.Errorf("host %q port %d, MQTT %q, WebSocket %q, without %s: %v", o.Host, o.Port, o.MQTT, o.WebSocket, lacks, err)
			}
		}
	}
	data := filepath.Join(dir, "data")
	if _, err := Start(Options{Dir: data, Port: RandomPort, Host: "0.0.0.0"}); !errors.Is(err, ErrOpen) {
		t.Errorf("started: %v", err)
	}
	if _, err := os.Stat(data); err == nil {
		t.Error("a server that was refused made its directory")
	}
	for _, addr := range []string{"1883", "h:", "h:http", "h:65536", "h:-1", "::1:80"} {
		o := Options{Host: localhost, MQTT: addr}
		if _, err := o.door(); err == nil || !strings.Contains(err.Error(), "want host:port") {
			t.Errorf("MQTT at %q: %v", addr, err)
		}
	}
}

func serverCertificate(t *testing.T, dir string, at time.Time) (cert, key string) {
	t.Helper()
	authority, err := certs.NewAuthority("test", at)
	if err != nil {
		t.Fatal(err)
	}
	server, err := certs.NewServer(authority, certs.OfThisMachine("plant", nil), at)
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

// A certificate is warned of in its last 30 days, and refused after them.
func TestCertificateEnds(t *testing.T) {
	for age, want := range map[time.Duration]string{
		0:                                  "",
		certs.ServerLife - 31*24*time.Hour: "",
		certs.ServerLife - 29*24*time.Hour: "expires soon",
		certs.ServerLife + time.Hour:       "refused",
	} {
		var log strings.Builder
		o := Options{Dir: t.TempDir(), Port: InProcess, Log: slog.New(slog.NewTextHandler(&log, nil))}
		o.Cert, o.Key = serverCertificate(t, t.TempDir(), time.Now().Add(-age))
		s, err := Start(o)
		switch {
		case want == "refused":
			if !errors.Is(err, ErrExpired) || !strings.Contains(err.Error(), o.Cert) {
				t.Errorf("%v old: %v", age, err)
			}
			continue
		case err != nil:
			t.Fatal(err)
		}
		s.Close()
		if said := strings.Contains(log.String(), "expires soon"); said != (want != "") {
			t.Errorf("%v old: the log says\n%s", age, &log)
		}
	}
	dir := t.TempDir()
	cert, _ := serverCertificate(t, dir, time.Now())
	_, other := serverCertificate(t, t.TempDir(), time.Now())
	for what, o := range map[string]Options{"neither": {Cert: cert}, "does not match": {Cert: cert, Key: other}, "no such file": {Cert: "none", Key: other}} {
		o.Dir = dir
		if _, err := Start(o); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("want an error that says %q: %v", what, err)
		}
	}
}

// MQTT of the server itself says what it loses, and takes messages.
func TestMQTT(t *testing.T) {
	var log strings.Builder
	s, err := Start(Options{Dir: t.TempDir(), MQTT: "127.0.0.1:0", Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	nc, err := s.Connect("test", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	sub, err := nc.SubscribeSync("sensors.*")
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	c := paho.NewClient(paho.NewClientOptions().AddBroker("tcp://" + s.MQTT()).SetClientID("test"))
	for _, token := range []func() paho.Token{c.Connect, func() paho.Token { return c.Publish("sensors/pump7", 1, false, "x") }} {
		if tok := token(); !tok.WaitTimeout(10*time.Second) || tok.Error() != nil {
			t.Fatalf("MQTT at %s: %v", s.MQTT(), tok.Error())
		}
	}
	if m, err := sub.NextMsg(10 * time.Second); err != nil || m.Subject != "sensors.pump7" {
		t.Errorf("the message came as %v, %v", m, err)
	}
	c.Disconnect(0)
	s.Close() // it logs no more
	if !strings.Contains(log.String(), "acknowledged messages are lost") || !strings.Contains(log.String(), "eusn-stream gateway") {
		t.Errorf("the log does not warn of MQTT:\n%s", &log)
	}
}
