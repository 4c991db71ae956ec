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

// secured has the files of an Access, and an authority that clients trust.
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
	s.writePair("server", time.Now())
	s.writeFile("ca.pem", string(authority.Cert))
	s.writeFile("users", "# people\n\nann:"+hashOf(t, "ann's password")+"\n")
	s.writeFile("token", goodToken+"\n")
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

func (s *secured) filePath(name string) string { return filepath.Join(s.dir, name) }

func (s *secured) writeFile(name, text string) {
	s.Helper()
	if err := os.WriteFile(s.filePath(name)+".new", []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	if err := os.Rename(s.filePath(name)+".new", s.filePath(name)); err != nil {
		s.Fatal(err)
	}
}

// writePair writes a certificate created at a time, and its key.
func (s *secured) writePair(name string, at time.Time) {
	s.Helper()
	p, err := certs.NewServer(s.authority, []string{"localhost", "127.0.0.1"}, at)
	if err != nil {
		s.Fatal(err)
	}
	s.writeFile(name+".key", string(p.Key))
	s.writeFile(name+".pem", string(p.Cert))
}

// startServer starts a server that rereads its files at every request.
func (s *secured) startServer(a Access) string {
	s.Helper()
	d, err := a.openDoor(s.book.Logger())
	if err != nil {
		s.Fatal(err)
	}
	d.files.every, d.pause = 0, 0
	o := Options{Counters: new(pipeline.Counters), Log: s.book.Logger(), patience: patience}
	server, err := d.serveGuarded("127.0.0.1:0", newHandler(o, newRegistry(o)), patience)
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

// sendRequest sends a request on a separate connection. Headers are pairs.
func (s *secured) sendRequest(url string, with *tls.Config, header ...string) (*http.Response, string, error) {
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

// requestStatus returns the status of a request with a login, "" for none.
func (s *secured) requestStatus(url, login string) int {
	s.Helper()
	var header []string
	if login != "" {
		header = []string{"Authorization", login}
	}
	res, _, err := s.sendRequest(url, nil, header...)
	if err != nil {
		s.Fatal(err)
	}
	return res.StatusCode
}

func basicAuth(user, password string) string {
	r := &http.Request{Header: http.Header{}}
	r.SetBasicAuth(user, password)
	return r.Header.Get("Authorization")
}

// clientPair returns a client's certificate.
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
