package certs

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"
)

const (
	rereadEvery = time.Second
	maxFile     = 1 << 20 // bytes
)

// Files are the certificate and the key of a listener. They are read again when they have
// changed, at most once a second. Files that cannot be used then change nothing, and are
// logged.
type Files struct {
	cert, key string
	log       *slog.Logger
	every     time.Duration // rereadEvery, but for tests

	mu     sync.Mutex
	looked time.Time
	seen   [2]mark
	pair   *tls.Certificate
	failed string // what was logged last, empty after a success
}

// mark is what a file is known by, without reading it.
type mark struct {
	size     int64
	modified time.Time
}

// OpenFiles reads the files.
func OpenFiles(cert, key string, log *slog.Logger) (*Files, error) {
	f := &Files{cert: cert, key: key, log: log, every: rereadEvery}
	f.looked = time.Now()
	if err := f.read(); err != nil {
		return nil, err
	}
	return f, nil
}

// Certificate is the callback for tls.Config.GetCertificate.
func (f *Files) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.looked) < f.every {
		return f.pair, nil
	}
	f.looked = time.Now()
	before := f.pair
	switch err := f.read(); {
	case err != nil && err.Error() != f.failed:
		f.log.Error("a certificate cannot be used; the previous one is still in use. Repair the file: it is read again automatically", "err", err)
		f.failed = err.Error()
	case err == nil && f.pair != before:
		f.log.Info("a certificate was read again", "certificate", f.cert, "until", f.pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
		f.failed = ""
	}
	return f.pair, nil
}

// End is when the certificate in use ends.
func (f *Files) End() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pair.Leaf.NotAfter
}

// read reads the files if they have changed.
func (f *Files) read() error {
	var now [2]mark
	for i, path := range []string{f.cert, f.key} {
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("certificate %s with key %s: %w", f.cert, f.key, err)
		}
		now[i] = mark{info.Size(), info.ModTime()}
	}
	if f.pair != nil && now == f.seen {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return fmt.Errorf("certificate %s with key %s: %w", f.cert, f.key, err)
	}
	f.pair, f.seen = &pair, now
	return nil
}

// ReadEnd reads when the first certificate of a file ends.
func ReadEnd(path string) (time.Time, error) {
	file, err := os.Open(path)
	if err != nil {
		return time.Time{}, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFile))
	if err != nil {
		return time.Time{}, err
	}
	for len(text) > 0 {
		var b *pem.Block
		if b, text = pem.Decode(text); b == nil {
			break
		}
		if b.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return time.Time{}, err
		}
		return c.NotAfter, nil
	}
	return time.Time{}, errors.New("no certificate in PEM")
}
