package opcua

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the messages about wrong settings and servers to testdata")

// compareFile compares the messages with a reviewed file.
func compareFile(t *testing.T, file, test string, messages []byte) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, messages, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(path); err != nil || !bytes.Equal(want, messages) {
		t.Errorf("%s differs from the current messages (%v); review both after: go test ./internal/gateway/opcua -run %s -update\n%s", path, err, test, messages)
	}
}

// startListener is a server of another protocol: it sends one answer after the first bytes.
func startListener(t *testing.T, answer string, closes bool) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				c.Read(make([]byte, 1000))
				c.Write([]byte(answer))
				if !closes {
					c.Read(make([]byte, 1)) // until the client closes
				}
			}()
		}
	}()
	return "opc.tcp://" + l.Addr().String()
}

// Wrong settings are reported before anything connects, errors of a server at each attempt; the
// messages are in testdata/wrong.txt, reviewed. TestOPCUAServer has the errors of a real
// server.
func TestWrong(t *testing.T) {
	dir := t.TempDir()
	id := newIdentity(t, dir, "own", time.Now(), 1)
	otherID := newIdentity(t, dir, "other", time.Now(), 1)
	nameless := newIdentity(t, dir, "", time.Now(), 1)
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	elliptic := writeIdentity(t, dir, "curve", time.Now(), 1, curve)
	empty := filepath.Join(dir, "empty.pem")
	if err := os.WriteFile(empty, []byte("-----BEGIN nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	ended := startListener(t, "", true)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	unused := "opc.tcp://" + l.Addr().String()
	l.Close()
	var messages bytes.Buffer
	for _, w := range []struct {
		what   string
		change func(o *Options)
	}{
		{"opcua: http://plc", func(o *Options) { o.URL = "http://plc" }},
		{"gateway.opcua.security: Basic128", func(o *Options) { o.Policy = "Basic128" }},
		{"gateway.opcua.security: Basic256Sha256, no certificate", func(o *Options) { o.Policy = "Basic256Sha256" }},
		{"gateway.opcua.cert without gateway.opcua.key", func(o *Options) { o.Cert = id.cert }},
		{"gateway.opcua.cert of no file", func(o *Options) { o.Cert, o.Key = filepath.Join(dir, "none.pem"), id.key }},
		{"gateway.opcua.key of another certificate", func(o *Options) { o.Cert, o.Key = id.cert, otherID.key }},
		{"a certificate whose key is not of RSA", func(o *Options) { o.Cert, o.Key = elliptic.cert, elliptic.key }},
		{"a certificate without an application URI", func(o *Options) { o.Cert, o.Key = nameless.cert, nameless.key }},
		{"gateway.opcua.trust of no file", func(o *Options) { o.Trust = filepath.Join(dir, "none.pem") }},
		{"gateway.opcua.trust of a file without a certificate", func(o *Options) { o.Trust = empty }},
		{"gateway.opcua.login: ticket", func(o *Options) { o.Login = "ticket" }},
		{"gateway.opcua.login: certificate, no certificate", func(o *Options) { o.Login = "certificate" }},
		{"gateway.opcua.login: certificate, and gateway.opcua.user", func(o *Options) { o.Login, o.User, o.Cert, o.Key = "certificate", "u", id.cert, id.key }},
		{"gateway.opcua.nodes: {}", func(o *Options) { o.Nodes = nil }},
		{"gateway.opcua.nodes: {p/x: i=1}", func(o *Options) { o.Nodes = map[string]string{"p/x": "i=1"} }},
		{"gateway.opcua.nodes: {p/z: i=1}", func(o *Options) { o.Nodes = map[string]string{"p/z": "i=1"} }},
		{"gateway.opcua.nodes: {x: i=1}", func(o *Options) { o.Nodes = map[string]string{"x": "i=1"} }},
		{"gateway.opcua.nodes: {a b/x: i=1}", func(o *Options) { o.Nodes = map[string]string{"a b/x": "i=1"} }},
		{"gateway.opcua.nodes: {p/x: i=one}", func(o *Options) { o.Nodes = map[string]string{"p/x": "i=one", "p/y": "i=1"} }},
		{"nothing listens at the address", func(o *Options) { o.URL = unused }},
		{"a server of HTTP", func(o *Options) { o.URL = startListener(t, "HTTP/1.1 400 Bad Request\r\n\r\n", true) }},
		{"a server that is silent", func(o *Options) { o.URL = startListener(t, "", false) }},
		{"a server that ends the connection", func(o *Options) { o.URL = ended }},
		{"an answer that is too long", func(o *Options) { o.URL = startListener(t, "ACKF\xff\xff\xff\x7f", false) }},
	} {
		o := Options{URL: "opc.tcp://plc:4840", Policy: "auto", Login: "auto", Nodes: map[string]string{"p/x": "ns=1;s=X", "p/y": "i=7"}, Channels: []string{"x", "y"}, Sampler: plain{}, Queue: 1, Publishing: time.Second}
		w.change(&o)
		c, err := newClient(nil, o)
		if err == nil {
			c.wait = 200 * time.Millisecond
			err = c.runSession(t.Context())
		}
		if err == nil {
			t.Errorf("%s: taken", w.what)
			continue
		}
		text := strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), "")
		if _, addr, found := strings.Cut(o.URL, "opc.tcp://127.0.0.1:"); found {
			text = strings.ReplaceAll(text, "127.0.0.1:"+addr, "plc:4840")
		}
		fmt.Fprintf(&messages, "%s\n   %s\n\n", w.what, text)
	}
	compareFile(t, "wrong.txt", "TestWrong", messages.Bytes())
}
