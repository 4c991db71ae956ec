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

// book has what a client gives to a gateway, and says in its log, a line each.
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

// hears waits for a line that begins so, and returns what follows.
func (b book) hears(t *testing.T, begin string) string {
	t.Helper()
	var seen []string
	for end := time.After(pipelinetest.Patience); ; {
		select {
		case line := <-b:
			if rest, found := strings.CutPrefix(line, begin); found {
				return rest
			}
			seen = append(seen, line)
		case <-end:
			t.Fatalf("no %q in %q", begin, seen)
		}
	}
}

// identity is a certificate and its key, as files.
type identity struct{ cert, key, der string }

func newIdentity(t *testing.T, dir, name string, from time.Time, days int) identity {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return writeIdentity(t, dir, name, from, days, key)
}

// writeIdentity writes the files of an identity. Its application URI has the name; one
// without a name has none.
func writeIdentity(t *testing.T, dir, name string, from time.Time, days int, key crypto.Signer) identity {
	t.Helper()
	var uris []*url.URL
	if name != "" {
		uris = []*url.URL{{Scheme: "urn", Opaque: "eusn-stream:" + name}}
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: from, NotAfter: from.AddDate(0, 0, days), URIs: uris, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageContentCommitment | x509.KeyUsageKeyEncipherment | x509.KeyUsageDataEncipherment | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key) // as openssl writes it
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

// server is node-opcua's, with a login and certificates that it trusts.
type server struct {
	t         *testing.T
	args      map[string]any
	url, cert string
	in        io.WriteCloser
	end       func()
}

func (s *server) start() {
	s.t.Helper()
	arg, err := json.Marshal(s.args)
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command("node", "opcua-secure.mjs", string(arg))
	cmd.Dir, cmd.Stderr = filepath.FromSlash("../../../internal/cli/live/testdata/fieldbus"), os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		s.in, err = cmd.StdinPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.end = sync.OnceFunc(func() { cmd.Process.Kill(); cmd.Wait() })
	s.t.Cleanup(s.end)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		switch {
		case len(words) == 2 && words[0] == "certificate":
			s.cert = words[1]
		case len(words) == 3 && words[0] == "at":
			s.url = words[1]
			var port int
			fmt.Sscanf(s.url, "opc.tcp://127.0.0.1:%d", &port)
			s.args["port"] = port // the next time, too
			go io.Copy(io.Discard, out)
			return
		}
	}
	s.t.Fatal("the server of OPC UA does not begin")
}

func (s *server) set(values string) { fmt.Fprintf(s.in, "[%s]\n", values) }

func (s *server) options(id identity) Options {
	return Options{URL: s.url, Policy: "auto", Login: "auto", Cert: id.cert, Key: id.key, Channels: []string{"x", "y"}, Sampler: plain{},
		Nodes:    map[string]string{"press/x": "ns=1;s=Press.X", "press/y": "ns=1;s=Press.Y"},
		Sampling: 0, Publishing: 50 * time.Millisecond, Queue: 20}
}

func follow(t *testing.T, o Options) (book, func()) {
	t.Helper()
	b := make(book, 1<<16)
	o.Log = slog.New(b)
	c, err := newClient(b, o)
	if err != nil {
		t.Fatal(err)
	}
	c.end = loop.Run(c.run)
	end := sync.OnceFunc(c.Close)
	t.Cleanup(end)
	return b, end
}

const (
	subscribed = "OPC UA: subscribed"
	begun      = "OPC UA: all variables have values"
)

// A server that asks for certificates and logins: what works, and what is said of what
// does not, as reviewed in testdata/wrong-server.txt.
func TestOPCUAServer(t *testing.T) {
	parts.RequireModule(t, "fieldbus", "internal/cli/live/testdata/fieldbus", "node-opcua-server", " --omit=optional --ignore-scripts")
	dir := t.TempDir()
	now := time.Now()
	good, guest := newIdentity(t, dir, "good", now.Add(-time.Hour), 30), newIdentity(t, dir, "guest", now.Add(-time.Hour), 30)
	stranger, expired := newIdentity(t, dir, "stranger", now.Add(-time.Hour), 30), newIdentity(t, dir, "expired", time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), 20)
	s := &server{t: t, args: map[string]any{"dir": filepath.Join(dir, "server"), "port": 0, "trust": []string{good.der, guest.der, expired.der}, "users": []string{good.der}}}
	s.start()

	// Every policy, with each login, and the server's certificate pinned.
	for _, policy := range []string{"auto", "Basic256Sha256", "Aes128_Sha256_RsaOaep", "Aes256_Sha256_RsaPss"} {
		for _, login := range Logins {
			o := s.options(good)
			o.Policy, o.Login, o.Trust = policy, login, s.cert
			if login == "auto" {
				o.User, o.Password = "gateway", "secret"
			}
			b, end := follow(t, o)
			b.hears(t, subscribed)
			end()
		}
	}

	var said bytes.Buffer
	say := func(what, text string) {
		text = strings.NewReplacer(s.url, "opc.tcp://plc:4840", strings.TrimPrefix(s.url, "opc.tcp://"), "plc:4840").Replace(text)
		fmt.Fprintf(&said, "%s\n   %s\n\n", what, text)
	}
	for _, w := range []struct {
		what   string
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
		o := s.options(good)
		o.User, o.Password = "gateway", "secret"
		w.change(&o)
		b, end := follow(t, o)
		say(w.what, b.hears(t, "failed "))
		end()
	}

	// Values that are no samples.
	o := s.options(good)
	o.User, o.Password, o.Queue = "gateway", "secret", 2
	b, _ := follow(t, o)
	b.hears(t, begun)
	s.set(`{"name": "X", "value": 1, "ms": 1000}`)
	if got := b.hears(t, "sample "); got != "gap press 1000: [1 0]" {
		t.Error(got)
	}
	for i, v := range []struct{ what, value string }{
		{"a value that is a text", `"type": "String", "value": "high"`},
		{"a value that is a time", `"type": "DateTime", "value": 5`},
		{"a value that is an array", `"value": [1, 2]`},
	} {
		s.set(fmt.Sprintf(`{"name": "X", "ms": %d, %s}`, 2000+1000*i, v.value))
		say(v.what, b.hears(t, "refused "))
		if got, want := b.hears(t, "sample "), fmt.Sprintf("press %d: [NaN 0]", 2000+1000*i); got != want {
			t.Errorf("%s: %s, want %s", v.what, got, want)
		}
	}
	s.set(`{"name": "X", "value": 7, "ms": 8000, "status": "BadSensorFailure"}`)
	if got := b.hears(t, "sample "); got != "press 8000: [NaN 0]" {
		t.Error(got)
	}
	s.set(`{"name": "X", "value": 7, "ms": 9000, "status": "UncertainLastUsableValue"}`)
	if got := b.hears(t, "sample "); got != "press 9000: [7 0]" {
		t.Error(got)
	}
	s.set(`{"name": "X", "value": 1, "ms": 10000}, {"name": "X", "value": 2, "ms": 10001}, {"name": "X", "value": 3, "ms": 10002}, {"name": "X", "value": 4, "ms": 10003}`)
	if got := b.hears(t, "sample "); got != "gap press 10002: [3 0]" { // a queue of two
		t.Error(got)
	}

	// The server ends, and is there again after a while.
	s.end()
	say("the server ends", b.hears(t, "failed "))
	say("the server is away", b.hears(t, "failed "))
	s.start()
	b.hears(t, "OPC UA: the session is a new one: what has changed since the last one is missing")
	b.hears(t, begun)
	s.set(`{"name": "Y", "value": 5, "ms": 20000}`)
	if got := b.hears(t, "sample "); got != "gap press 20000: [0 5]" {
		t.Error(got)
	}
	compare(t, "wrong-server.txt", "TestOPCUAServer", said.Bytes())
}
