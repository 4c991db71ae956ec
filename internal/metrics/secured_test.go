package metrics

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/eusn-stream/eusn-stream/internal/certs"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// secured are the files of an Access, and an authority that clients know.
type secured struct {
	*testing.T
	dir       string
	authority certs.Pair
	pool      *x509.CertPool
	book      *pipelinetest.LogBook
}

func newSecured(t *testing.T) *secured {
	t.Helper()
	authority, err := certs.NewAuthority("test", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	s := &secured{t, t.TempDir(), authority, x509.NewCertPool(), &pipelinetest.LogBook{}}
	s.pool.AppendCertsFromPEM(authority.Cert)
	s.pair("server", time.Now())
	s.write("ca.pem", string(authority.Cert))
	s.write("users", "# people\n\nann:"+hashOf(t, "ann's password")+"\n")
	s.write("token", goodToken+"\n")
	return s
}

func hashOf(t *testing.T, password string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(hash)
}

func (s *secured) path(name string) string { return filepath.Join(s.dir, name) }

func (s *secured) write(name, text string) {
	s.Helper()
	if err := os.WriteFile(s.path(name)+".new", []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	if err := os.Rename(s.path(name)+".new", s.path(name)); err != nil {
		s.Fatal(err)
	}
}

// pair writes a certificate of that time and its key.
func (s *secured) pair(name string, at time.Time) {
	s.Helper()
	p, err := certs.NewServer(s.authority, []string{"localhost", "127.0.0.1"}, at)
	if err != nil {
		s.Fatal(err)
	}
	s.write(name+".key", string(p.Key))
	s.write(name+".pem", string(p.Cert))
}

// serve opens a server whose files are read at every request.
func (s *secured) serve(a Access) string {
	s.Helper()
	d, err := a.open(s.book.Logger())
	if err != nil {
		s.Fatal(err)
	}
	d.files.every, d.pause = 0, 0
	o := Options{Counters: new(pipeline.Counters), Log: s.book.Logger(), patience: patience}
	server, err := d.serve("127.0.0.1:0", handler(o, newRegistry(o)), patience)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := server.Close(); err != nil {
			s.Error(err)
		}
	})
	return server.URL()
}

// ask sends a request on a connection of its own. Headers are pairs.
func (s *secured) ask(url string, with *tls.Config, header ...string) (*http.Response, string, error) {
	s.Helper()
	if with == nil {
		with = &tls.Config{}
	}
	with.RootCAs = s.pool
	transport := &http.Transport{TLSClientConfig: with, DisableKeepAlives: true}
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		s.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := (&http.Client{Transport: transport, Timeout: patience}).Do(req)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return res, string(body), err
}

// code is the status of a request with a login, "" for none.
func (s *secured) code(url, login string) int {
	s.Helper()
	var header []string
	if login != "" {
		header = []string{"Authorization", login}
	}
	res, _, err := s.ask(url, nil, header...)
	if err != nil {
		s.Fatal(err)
	}
	return res.StatusCode
}

func basic(user, password string) string {
	r := &http.Request{Header: http.Header{}}
	r.SetBasicAuth(user, password)
	return r.Header.Get("Authorization")
}

// clientPair is a client's certificate.
func clientPair(t *testing.T, by certs.Pair) tls.Certificate {
	t.Helper()
	authority, err := tls.X509KeyPair(by.Cert, by.Key)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(7), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, c, authority.Leaf, &key.PublicKey, authority.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
