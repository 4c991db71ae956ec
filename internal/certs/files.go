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

// Files has the certificate and the key of a listener. It rereads changed files, at most once a
// second. If the new files are invalid, Files keeps the old certificate and logs the error.
type Files struct {
	cert, key string
	log       *slog.Logger
	interval  time.Duration // rereadEvery, shorter in tests

	mu      sync.Mutex
	checked time.Time
	states  [2]fileState
	pair    *tls.Certificate
	failed  string // newest logged error; empty after a success
}

// fileState identifies the content of a file without reading.
type fileState struct {
	size     int64
	modified time.Time
}

// OpenFiles reads the files.
func OpenFiles(cert, key string, log *slog.Logger) (*Files, error) {
	f := &Files{cert: cert, key: key, log: log, interval: rereadEvery}
	f.checked = time.Now()
	if err := f.readFiles(); err != nil {
		return nil, err
	}
	return f, nil
}

// Certificate is the callback for tls.Config.GetCertificate.
func (f *Files) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.checked) < f.interval {
		return f.pair, nil
	}
	f.checked = time.Now()
	before := f.pair
	switch err := f.readFiles(); {
	case err != nil && err.Error() != f.failed:
		f.log.Error("a certificate file is invalid; the previous certificate is still in use. Repair the file: it is reread automatically", "err", err)
		f.failed = err.Error()
	case err == nil && f.pair != before:
		f.log.Info("a certificate was reloaded", "certificate", f.cert, "until", f.pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
		f.failed = ""
	}
	return f.pair, nil
}

// Expiry returns the end of the current certificate.
func (f *Files) Expiry() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pair.Leaf.NotAfter
}

// readFiles reads the files if they have changed.
func (f *Files) readFiles() error {
	var states [2]fileState
	for i, path := range []string{f.cert, f.key} {
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("certificate %s with key %s: %w", f.cert, f.key, err)
		}
		states[i] = fileState{info.Size(), info.ModTime()}
	}
	if f.pair != nil && states == f.states {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return fmt.Errorf("certificate %s with key %s: %w", f.cert, f.key, err)
	}
	f.pair, f.states = &pair, states
	return nil
}

// ReadExpiry reads the end of the first certificate in a file.
func ReadExpiry(path string) (time.Time, error) {
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
