package metrics

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/certs"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

const goodToken = "0123456789abcdef-old"

// TestLogin: without TLS and a login every request is answered; with them only requests with a
// login, on every path, including unknown paths.
func TestLogin(t *testing.T) {
	s := newSecured(t)
	open := s.startServer(Access{})
	if c := s.requestStatus(open+"/metrics", ""); c != 200 || !strings.HasPrefix(open, "http://") {
		t.Errorf("without a login: %d at %s", c, open)
	}
	base := s.startServer(Access{Cert: s.filePath("server.pem"), Key: s.filePath("server.key"), Users: s.filePath("users"), TokenFile: s.filePath("token")})
	if !strings.HasPrefix(base, "https://") {
		t.Fatalf("served at %s, want https", base)
	}
	if res, err := http.Get("http" + strings.TrimPrefix(base, "https") + "/metrics"); err != nil || res.StatusCode != 400 {
		t.Errorf("without TLS: %v, %v, want 400", res, err)
	}
	right := []string{basicAuth("ann", "ann's password"), "Bearer " + goodToken, "bearer  " + goodToken + " "}
	wrong := []string{"", basicAuth("ann", "Ann's password"), basicAuth("ann", ""), basicAuth("bob", "ann's password"), basicAuth("", ""), basicAuth("ann", "ann's password"+strings.Repeat(" ", 72)),
		"Bearer", "Bearer ", "Bearer 0123456789abcdef-new", "Bearer " + goodToken + "x", "Basic " + goodToken, "Digest " + goodToken, basicAuth("ann", goodToken), basicAuth(goodToken, "")}
	for _, path := range []string{"/metrics", "/", "/healthz", "/readyz", "/nothing", "//metrics", "/metrics/../metrics"} {
		for _, login := range wrong {
			if c := s.requestStatus(base+path, login); c != 401 {
				t.Errorf("%s with %q: %d, want 401", path, login, c)
			}
		}
		for range 2 { // the second time from memory
			for _, login := range right {
				if c := s.requestStatus(base+path, login); c == 401 {
					t.Errorf("%s with %q: 401", path, login)
				}
			}
		}
	}
	res, body, err := s.sendRequest(base+"/metrics", nil)
	if err != nil || len(res.Header.Values("WWW-Authenticate")) != 2 || strings.Contains(body, "eusn_") {
		t.Errorf("%v, %v, %q: want to be told how to log in, and no more", err, res.Header, body)
	}
	text := s.book.String()
	if !strings.Contains(text, "were refused") {
		t.Errorf("nothing is logged of refused logins:\n%s", text)
	}
	for _, secret := range []string{"password", goodToken, "$2a$", "ann", "bob"} {
		if strings.Contains(strings.ReplaceAll(text, "password or token", ""), secret) {
			t.Errorf("the log shows %q:\n%s", secret, text)
		}
	}
}

// TestOpenHealth: with OpenHealth, only health is open.
func TestOpenHealth(t *testing.T) {
	s := newSecured(t)
	base := s.startServer(Access{Cert: s.filePath("server.pem"), Key: s.filePath("server.key"), ClientCA: s.filePath("ca.pem"), TokenFile: s.filePath("token"), OpenHealth: true})
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503, "/metrics": 403, "/": 403, "/healthz/": 403, "//healthz": 403, "/metrics?/healthz": 403} {
		if c := s.requestStatus(base+path, "Bearer "+goodToken); c != want {
			t.Errorf("%s without a client certificate: %d, want %d", path, c, want)
		}
	}
	res, _, err := s.sendRequest(base+"/metrics", &tls.Config{Certificates: []tls.Certificate{clientPair(t, s.authority)}}, "Authorization", "Bearer "+goodToken)
	if err != nil || res.StatusCode != 200 {
		t.Errorf("/metrics with a client certificate: %v, %v, want 200", res, err)
	}
}

// TestClientCertificate: a client certificate is required in addition to the login, from the
// configured authority.
func TestClientCertificate(t *testing.T) {
	s := newSecured(t)
	client := clientPair(t, s.authority)
	other, err := certs.NewAuthority("other", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	stranger := clientPair(t, other)
	base := s.startServer(Access{Cert: s.filePath("server.pem"), Key: s.filePath("server.key"), ClientCA: s.filePath("ca.pem"), TokenFile: s.filePath("token")})
	if _, _, err := s.sendRequest(base+"/metrics", nil, "Authorization", "Bearer "+goodToken); err == nil {
		t.Error("an answer without a client certificate")
	}
	if _, _, err := s.sendRequest(base+"/metrics", &tls.Config{Certificates: []tls.Certificate{stranger}}, "Authorization", "Bearer "+goodToken); err == nil {
		t.Error("an answer to a stranger's certificate")
	}
	with := func(header ...string) int {
		res, _, err := s.sendRequest(base+"/metrics", &tls.Config{Certificates: []tls.Certificate{client}}, header...)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode
	}
	if c := with(); c != 401 {
		t.Errorf("a certificate without a login: %d, want 401", c)
	}
	if c := with("Authorization", "Bearer "+goodToken); c != 200 {
		t.Errorf("a certificate and a login: %d", c)
	}
	s.writeFile("ca.pem", string(other.Cert)) // the old authority is no longer trusted
	if _, _, err := s.sendRequest(base+"/metrics", &tls.Config{Certificates: []tls.Certificate{client}}, "Authorization", "Bearer "+goodToken); err == nil {
		t.Error("an answer to a certificate whose authority is trusted no longer")
	}
}

// TestReread: changed files are reread: a removed user is refused at the next request. An unusable
// file changes nothing, and is logged once.
func TestReread(t *testing.T) {
	s := newSecured(t)
	base := s.startServer(Access{Cert: s.filePath("server.pem"), Key: s.filePath("server.key"), Users: s.filePath("users"), TokenFile: s.filePath("token")})
	want := func(what, login string, code int) {
		t.Helper()
		if c := s.requestStatus(base+"/metrics", login); c != code {
			t.Errorf("%s: %d, want %d", what, c, code)
		}
	}
	ann, bob := basicAuth("ann", "ann's password"), basicAuth("bob", "bob's password")
	want("ann", ann, 200)
	s.writeFile("users", "ann:"+hashOf(t, "another")+"\nbob:"+hashOf(t, "bob's password"))
	want("ann with the old password", ann, 401)
	want("bob", bob, 200)
	s.writeFile("users", "ann:"+hashOf(t, "ann's password"))
	want("bob, taken out", bob, 401)
	want("ann again", ann, 200)

	same, long := hashOf(t, "bob's password"), strings.Repeat("long ", 14)+"72"
	s.writeFile("users", "ann:"+same+"\nbob:"+same+"\ncora:"+hashOf(t, long))
	want("bob, with a copy of ann's line", bob, 200)
	want("a password of 72 bytes", basicAuth("cora", long), 200)
	want("one that begins with it", basicAuth("cora", long+"x"), 401) // bcrypt would ignore the rest
	s.writeFile("users", "ann:"+same)
	want("bob, taken out, whose hash ann still has", bob, 401)
	s.writeFile("users", "ann:"+hashOf(t, "ann's password"))
	want("ann once more", ann, 200)

	s.writeFile("users", "ann:plain password")
	want("ann while the file is wrong", ann, 200)
	want("ann while the file is wrong", ann, 200)
	if n := strings.Count(s.book.String(), "is not a bcrypt hash"); n != 1 || strings.Contains(s.book.String(), "plain password") {
		t.Errorf("a wrong file is logged %d times, want once and without what it holds:\n%s", n, s.book)
	}
	if err := os.Remove(s.filePath("users")); err != nil {
		t.Fatal(err)
	}
	want("ann while the file is gone", ann, 200)
	s.writeFile("users", "bob:"+hashOf(t, "bob's password"))
	want("ann", ann, 401)
	if !strings.Contains(s.book.String(), "can be used again") {
		t.Errorf("the end is not logged:\n%s", s.book)
	}

	s.writeFile("token", "# both, for a change\n"+goodToken+"\n0123456789abcdef-new\n")
	want("the old token", "Bearer "+goodToken, 200)
	want("the new token", "Bearer 0123456789abcdef-new", 200)
	s.writeFile("token", "0123456789abcdef-new\n")
	want("the old token, taken out", "Bearer "+goodToken, 401)

	serial := func() string {
		res, _, err := s.sendRequest(base+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		return res.TLS.PeerCertificates[0].SerialNumber.String()
	}
	old := serial()
	s.writeFile("server.key", "no key") // as between the two files of a renewal
	if serial() != old {
		t.Error("another certificate, without its key")
	}
	s.writePair("server", time.Now())
	if serial() == old {
		t.Error("the old certificate after a renewal")
	}
}

// TestLoginQueue: passwords are hashed one at a time; after a long wait a client must retry.
func TestLoginQueue(t *testing.T) {
	s := newSecured(t)
	d, err := Access{Users: s.filePath("users")}.openDoor(s.book.Logger())
	if err != nil {
		t.Fatal(err)
	}
	d.place <- struct{}{} // a hash that never ends
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	for range 3 {
		ended.Go(func() {
			if ok, err := d.checkPassword(ctx, d.files.currentKeys(), "ann", "ann's password"); ok || !errors.Is(err, errBusy) {
				t.Errorf("%v, %v, want to be told to try again", ok, err)
			}
		})
	}
	cancel()
	ended.Wait()
	<-d.place
	if ok, err := d.checkPassword(t.Context(), d.files.currentKeys(), "ann", "ann's password"); !ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
	d.place <- struct{}{}
	if ok, err := d.checkPassword(t.Context(), d.files.currentKeys(), "ann", "ann's password"); !ok || err != nil {
		t.Errorf("a known login waits for the hashes of others: %v, %v", ok, err)
	}
}

// TestAccessRefused: unusable files are refused at the start, with the configuration key and the
// file name, and without possible secrets.
func TestAccessRefused(t *testing.T) {
	s := newSecured(t)
	pair := Access{Cert: s.filePath("server.pem"), Key: s.filePath("server.key")}
	s.writePair("old", time.Now().Add(-certs.ServerLife-2*time.Hour))
	with := func(change func(a *Access)) Access { a := pair; change(&a); return a }
	file := func(name, text string) string { s.writeFile(name, text); return s.filePath(name) }
	for want, a := range map[string]Access{
		"metrics.tls.key: open ":                  with(func(a *Access) { a.Key = s.filePath("none") }),
		"both of metrics.tls.cert":                {Cert: s.filePath("server.pem")},
		"private key does not match":              with(func(a *Access) { a.Key = s.filePath("old.key") }),
		"has expired":                             {Cert: s.filePath("old.pem"), Key: s.filePath("old.key")},
		"holds no certificate":                    with(func(a *Access) { a.ClientCA = s.filePath("token") }),
		"metrics.tls.ca needs":                    {ClientCA: s.filePath("ca.pem")},
		"no users":                                {Users: file("none1", "# nobody\n")},
		"line 2 is not name:hash":                 {Users: file("none2", "# x\nhunter2")},
		"line 1: the text after the name":         {Users: file("none3", "ann:hunter2")},
		"bcrypt hash with a cost of at most 14":   {Users: file("none4", "ann:$2a$15$"+strings.Repeat("a", 53))},
		"line 2: the name is listed twice":        {Users: file("none5", strings.Repeat("ann:"+hashOf(t, "x")+"\n", 2))},
		"no token: want one":                      {TokenFile: file("none6", "\n")},
		"line 1 is no token: want at least 16":    {TokenFile: file("none7", "hunter2")},
		"digits and signs without blanks":         {TokenFile: file("none8", "hunter2 hunter2 hunter2")},
		"none9 has more than 1048576 bytes":       {TokenFile: file("none9", strings.Repeat("x", maxKeyFile+1))},
		"metrics.token_file: open " + s.dir + "/": {TokenFile: s.filePath("none10")},
	} {
		if _, err := Listen("127.0.0.1:0", Options{Counters: new(pipeline.Counters), Access: a}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// FuzzAccessFiles: arbitrary files are read or refused.
func FuzzAccessFiles(f *testing.F) {
	f.Add([]byte("# people\nann:$2y$10$abcdefghijklmnopqrstuuRWDvO7yu4y5p7eLQk6CvjqGzQTzAAAA\n"))
	f.Add([]byte(goodToken + "\r\nx"))
	f.Add([]byte(":\n\x00\xff:$2a$15$"))
	f.Fuzz(func(t *testing.T, text []byte) {
		users, first, err := parseUsers(text)
		if (err == nil) != (len(users) > 0) || err == nil && !bcryptHash.MatchString(first) {
			t.Errorf("%d users, %q, %v", len(users), first, err)
		}
		for name, hash := range users {
			if name == "" || strings.Contains(name, ":") || !bcryptHash.MatchString(hash) {
				t.Errorf("user %q has the hash %q", name, hash)
			}
		}
		tokens, err := parseTokens(text)
		if (err == nil) != (len(tokens) > 0) {
			t.Errorf("%d tokens, %v", len(tokens), err)
		}
	})
}
