package opcua

import (
	"bufio"
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/internal/gateway/internal/loop"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// book is a gateway and a log handler for tests: it records samples and messages, one line each.
type book chan string

func (b book) Take(_ context.Context, m *gateway.Message) error {
	for _, p := range m.Parts {
		gap := ""
		if p.Gap {
			gap = "gap "
		}
		for i, at := range p.Times {
			n := len(p.X) / len(p.Times)
			b <- fmt.Sprintf("sample %s%s %d: %v", gap, p.Key, at/1e6, p.X[i*n:(i+1)*n])
			gap = ""
		}
	}
	return nil
}

func (b book) Refuse(_ gateway.Input, why error) { b <- "refused " + why.Error() }

func (b book) Enabled(context.Context, slog.Level) bool { return true }
func (b book) WithAttrs([]slog.Attr) slog.Handler       { return b }
func (b book) WithGroup(string) slog.Handler            { return b }
func (b book) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "err" {
			line = "failed " + a.Value.String()
		}
		return true
	})
	b <- line
	return nil
}

// waitFor waits for a line with a prefix and returns the rest of the line.
func (b book) waitFor(t *testing.T, prefix string) string {
	t.Helper()
	var lines []string
	for timeout := time.After(pipelinetest.Patience); ; {
		select {
		case line := <-b:
			if text, found := strings.CutPrefix(line, prefix); found {
				return text
			}
			lines = append(lines, line)
		case <-timeout:
			t.Fatalf("no %q in %q", prefix, lines)
		}
	}
}

// identity is a certificate and its key, in files.
type identity struct{ cert, key, der string }

func newIdentity(t *testing.T, dir, name string, notBefore time.Time, days int) identity {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return writeIdentity(t, dir, name, notBefore, days, key)
}

// writeIdentity writes the files of an identity. Its application URI has the name; no URI if
// the name is empty.
func writeIdentity(t *testing.T, dir, name string, notBefore time.Time, days int, key crypto.Signer) identity {
	t.Helper()
	var uris []*url.URL
	if name != "" {
		uris = []*url.URL{{Scheme: "urn", Opaque: "eusn-stream:" + name}}
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: notBefore, NotAfter: notBefore.AddDate(0, 0, days), URIs: uris, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageContentCommitment | x509.KeyUsageKeyEncipherment | x509.KeyUsageDataEncipherment | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key) // the format that openssl writes
	if err != nil {
		t.Fatal(err)
	}
	id := identity{filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key"), filepath.Join(dir, name+".der")}
	for file, b := range map[string][]byte{
		id.cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), id.key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), id.der: der,
	} {
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return id
}

// server is a server of node-opcua with a login and a list of trusted certificates.
type server struct {
	t         *testing.T
	args      map[string]any
	url, cert string
	input     io.WriteCloser
	stop      func()
}

func (s *server) startNode() {
	s.t.Helper()
	arg, err := json.Marshal(s.args)
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command("node", "opcua-secure.mjs", string(arg))
	cmd.Dir = filepath.FromSlash("../../../internal/cli/live/testdata/fieldbus")
	input, output := parts.StartProgram(s.t, cmd)
	s.input, s.stop = input, sync.OnceFunc(func() { cmd.Process.Kill(); cmd.Wait() })
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		switch {
		case len(words) == 2 && words[0] == "certificate":
			s.cert = words[1]
		case len(words) == 3 && words[0] == "at":
			s.url = words[1]
			var port int
			fmt.Sscanf(s.url, "opc.tcp://127.0.0.1:%d", &port)
			s.args["port"] = port // for a restart on the same port
			go io.Copy(io.Discard, output)
			return
		}
	}
	s.t.Fatal("the OPC UA server does not start")
}

func (s *server) setValues(values string) { fmt.Fprintf(s.input, "[%s]\n", values) }

func (s *server) clientOptions(id identity) Options {
	return Options{URL: s.url, Policy: "auto", Login: "auto", Cert: id.cert, Key: id.key, Channels: []string{"x", "y"}, Sampler: plain{},
		Nodes:    map[string]string{"press/x": "ns=1;s=Press.X", "press/y": "ns=1;s=Press.Y"},
		Sampling: 0, Publishing: 50 * time.Millisecond, Queue: 20}
}

func startClient(t *testing.T, o Options) (book, func()) {
	t.Helper()
	b := make(book, 1<<16)
	o.Log = slog.New(b)
	c, err := newClient(b, o)
	if err != nil {
		t.Fatal(err)
	}
	c.stop = loop.Run(c.reconnect)
	stop := sync.OnceFunc(c.Close)
	t.Cleanup(stop)
	return b, stop
}

const (
	subscribedLine = "OPC UA: subscribed"
	complete       = "OPC UA: all variables have values"
)

// A server that requires certificates and logins accepts all supported combinations. The errors
// for the rest are in testdata/wrong-server.txt, reviewed.
func TestOPCUAServer(t *testing.T) {
	parts.RequireModule(t, "fieldbus", "internal/cli/live/testdata/fieldbus", "node-opcua-server", " --omit=optional --ignore-scripts")
	dir := t.TempDir()
	now := time.Now()
	good, guest := newIdentity(t, dir, "good", now.Add(-time.Hour), 30), newIdentity(t, dir, "guest", now.Add(-time.Hour), 30)
	stranger, expired := newIdentity(t, dir, "stranger", now.Add(-time.Hour), 30), newIdentity(t, dir, "expired", time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), 20)
	s := &server{t: t, args: map[string]any{"dir": filepath.Join(dir, "server"), "port": 0, "trust": []string{good.der, guest.der, expired.der}, "users": []string{good.der}}}
	s.startNode()

	// Every policy, with each login, and the server's certificate pinned.
	for _, policy := range []string{"auto", "Basic256Sha256", "Aes128_Sha256_RsaOaep", "Aes256_Sha256_RsaPss"} {
		for _, login := range Logins {
			o := s.clientOptions(good)
			o.Policy, o.Login, o.Trust = policy, login, s.cert
			if login == "auto" {
				o.User, o.Password = "gateway", "secret"
			}
			b, stop := startClient(t, o)
			b.waitFor(t, subscribedLine)
			stop()
		}
	}

	var messages bytes.Buffer
	record := func(title, text string) {
		text = strings.NewReplacer(s.url, "opc.tcp://plc:4840", strings.TrimPrefix(s.url, "opc.tcp://"), "plc:4840").Replace(text)
		fmt.Fprintf(&messages, "%s\n   %s\n\n", title, text)
	}
	for _, w := range []struct {
		title  string
		change func(o *Options)
	}{
		{"a wrong password", func(o *Options) { o.Password = "guess" }},
		{"a user that the server does not know", func(o *Options) { o.User = "nobody" }},
		{"no login", func(o *Options) { o.User, o.Password = "", "" }},
		{"a certificate that the server does not trust", func(o *Options) { o.Cert, o.Key = stranger.cert, stranger.key }},
		{"a certificate that has expired", func(o *Options) { o.Cert, o.Key = expired.cert, expired.key }},
		{"login with the certificate of no user", func(o *Options) {
			o.User, o.Password, o.Login, o.Cert, o.Key = "", "", "certificate", guest.cert, guest.key
		}},
		{"another certificate in gateway.opcua.trust", func(o *Options) { o.Trust = stranger.cert }},
		{"a node that does not exist", func(o *Options) { o.Nodes["press/y"] = "ns=1;s=Press.Z" }},
		{"a namespace that does not exist", func(o *Options) { o.Nodes["press/y"] = "ns=99;s=Press.Y" }},
		{"a node that is no variable", func(o *Options) { o.Nodes["press/y"] = "ns=1;s=Press" }},
	} {
		o := s.clientOptions(good)
		o.User, o.Password = "gateway", "secret"
		w.change(&o)
		b, stop := startClient(t, o)
		record(w.title, b.waitFor(t, "failed "))
		stop()
	}

	// Values that are not numbers.
	o := s.clientOptions(good)
	o.User, o.Password, o.Queue = "gateway", "secret", 2
	b, _ := startClient(t, o)
	b.waitFor(t, complete)
	s.setValues(`{"name": "X", "value": 1, "ms": 1000}`)
	if got := b.waitFor(t, "sample "); got != "gap press 1000: [1 0]" {
		t.Error(got)
	}
	for i, v := range []struct{ title, value string }{
		{"a value that is a text", `"type": "String", "value": "high"`},
		{"a value that is a time", `"type": "DateTime", "value": 5`},
		{"a value that is an array", `"value": [1, 2]`},
	} {
		s.setValues(fmt.Sprintf(`{"name": "X", "ms": %d, %s}`, 2000+1000*i, v.value))
		record(v.title, b.waitFor(t, "refused "))
		if got, want := b.waitFor(t, "sample "), fmt.Sprintf("press %d: [NaN 0]", 2000+1000*i); got != want {
			t.Errorf("%s: %s, want %s", v.title, got, want)
		}
	}
	s.setValues(`{"name": "X", "value": 7, "ms": 8000, "status": "BadSensorFailure"}`)
	if got := b.waitFor(t, "sample "); got != "press 8000: [NaN 0]" {
		t.Error(got)
	}
	s.setValues(`{"name": "X", "value": 7, "ms": 9000, "status": "UncertainLastUsableValue"}`)
	if got := b.waitFor(t, "sample "); got != "press 9000: [7 0]" {
		t.Error(got)
	}
	s.setValues(`{"name": "X", "value": 1, "ms": 10000}, {"name": "X", "value": 2, "ms": 10001}, {"name": "X", "value": 3, "ms": 10002}, {"name": "X", "value": 4, "ms": 10003}`)
	if got := b.waitFor(t, "sample "); got != "gap press 10002: [3 0]" { // a queue of two
		t.Error(got)
	}

	// The server ends and restarts.
	s.stop()
	record("the server ends", b.waitFor(t, "failed "))
	record("the server is away", b.waitFor(t, "failed "))
	s.startNode()
	b.waitFor(t, "OPC UA: the session was recreated: values that changed since the previous session are missing")
	b.waitFor(t, complete)
	s.setValues(`{"name": "Y", "value": 5, "ms": 20000}`)
	if got := b.waitFor(t, "sample "); got != "gap press 20000: [0 5]" {
		t.Error(got)
	}
	compareFile(t, "wrong-server.txt", "TestOPCUAServer", messages.Bytes())
}
