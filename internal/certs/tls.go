package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"
)

// ClientTLS returns the TLS configuration of a client. The client trusts the authorities in the
// file ca, and presents the certificate cert with its key on request. All are paths of PEM
// files; without ca the client trusts the system's authorities. The result is nil if all paths
// are empty.
func ClientTLS(ca, cert, key string) (*tls.Config, error) {
	if ca == "" && cert == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	var err error
	if ca != "" {
		if c.RootCAs, err = Authorities(ca); err != nil {
			return nil, err
		}
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("certificate %s with key %s: %w", cert, key, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// Authorities reads the certificates of authorities from a PEM file.
func Authorities(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("certificates of authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", file)
	}
	return pool, nil
}

// ErrExpired is the error for an expired certificate.
var ErrExpired = errors.New("the certificate has expired: no client accepts it")

// ServerTLS returns the TLS configuration of a listener with the certificate cert and its key;
// changed files are reread. With ca, the listener accepts only clients with a certificate of
// these authorities. All are paths of PEM files. An expired certificate is ErrExpired.
func ServerTLS(cert, key, ca string, log *slog.Logger) (*tls.Config, error) {
	files, err := OpenFiles(cert, key, log)
	if err != nil {
		return nil, err
	}
	if expiry := files.Expiry(); !expiry.After(time.Now()) {
		return nil, fmt.Errorf("%s, valid until %s: %w", cert, expiry.UTC().Format(time.RFC3339), ErrExpired)
	}
	c := &tls.Config{GetCertificate: files.Certificate, MinVersion: tls.VersionTLS12}
	if err := RequireClients(c, ca); err != nil {
		return nil, fmt.Errorf("clients: %w", err)
	}
	return c, nil
}

// RequireClients restricts a listener to clients with a certificate of the authorities in a PEM
// file. Without a file it changes nothing.
func RequireClients(c *tls.Config, ca string) (err error) {
	if ca == "" {
		return nil
	}
	c.ClientAuth = tls.RequireAndVerifyClientCert
	c.ClientCAs, err = Authorities(ca)
	return err
}
