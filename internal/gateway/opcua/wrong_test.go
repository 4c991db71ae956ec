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

var update = flag.Bool("update", false, "write what is said of wrong settings and servers to testdata")

// compare holds what is said to a file that was reviewed.
func compare(t *testing.T, file, test string, said []byte) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, said, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(path); err != nil || !bytes.Equal(want, said) {
		t.Errorf("%s differs from what is said now (%v); look at both after: go test ./internal/gateway/opcua -run %s -update\n%s", path, err, test, said)
	}
}

// listener is a server that is none: it sends an answer to what it reads first.
func listener(t *testing.T, answer string, end bool) string {
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
				if !end {
					c.Read(make([]byte, 1)) // until the client gives up
				}
			}()
		}
	}()
	return "opc.tcp://" + l.Addr().String()
}

// What is wrong with settings is said before anything connects, and what is wrong with
// a server at each attempt; as reviewed in testdata/wrong.txt. What needs a real
// server is in TestOPCUAServer.
func TestWrong(t *testing.T) {
	dir := t.TempDir()
	id := newIdentity(t, dir, "own", time.Now(), 1)
	other := newIdentity(t, dir, "other", time.Now(), 1)
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
	gone := listener(t, "", true)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	away := "opc.tcp://" + l.Addr().String()
	l.Close()
	var said bytes.Buffer
	for _, w := range []struct {
		what   string
		change func(o *Options)
	}{
		{"opcua: http://plc", func(o *Options) { o.URL = "http://plc" }},
		{"gateway.opcua.security: Basic128", func(o *Options) { o.Policy = "Basic128" }},
		{"gateway.opcua.security: Basic256Sha256, no certificate", func(o *Options) { o.Policy = "Basic256Sha256" }},
		{"gateway.opcua.cert without gateway.opcua.key", func(o *Options) { o.Cert = id.cert }},
		{"gateway.opcua.cert of no file", func(o *Options) { o.Cert, o.Key = filepath.Join(dir, "none.pem"), id.key }},
		{"gateway.opcua.key of another certificate", func(o *Options) { o.Cert, o.Key = id.cert, other.key }},
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
		{"nothing listens at the address", func(o *Options) { o.URL = away }},
		{"a server of HTTP", func(o *Options) { o.URL = listener(t, "HTTP/1.1 400 Bad Request\r\n\r\n", true) }},
		{"a server that is silent", func(o *Options) { o.URL = listener(t, "", false) }},
		{"a server that ends the connection", func(o *Options) { o.URL = gone }},
		{"an answer that is too long", func(o *Options) { o.URL = listener(t, "ACKF\xff\xff\xff\x7f", false) }},
	} {
		o := Options{URL: "opc.tcp://plc:4840", Policy: "auto", Login: "auto", Nodes: map[string]string{"p/x": "ns=1;s=X", "p/y": "i=7"}, Channels: []string{"x", "y"}, Sampler: plain{}, Queue: 1, Publishing: time.Second}
		w.change(&o)
		c, err := newClient(nil, o)
		if err == nil {
			c.wait = 200 * time.Millisecond
			err = c.follow(t.Context())
		}
		if err == nil {
			t.Errorf("%s: taken", w.what)
			continue
		}
		text := strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), "")
		if _, addr, found := strings.Cut(o.URL, "opc.tcp://127.0.0.1:"); found {
			text = strings.ReplaceAll(text, "127.0.0.1:"+addr, "plc:4840")
		}
		fmt.Fprintf(&said, "%s\n   %s\n\n", w.what, text)
	}
	compare(t, "wrong.txt", "TestWrong", said.Bytes())
}
