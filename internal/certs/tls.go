package certs

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// ClientTLS returns the TLS of a client that trusts the authorities in the file ca, and
// shows the certificate cert with its key to servers that ask for one. All are paths of
// PEM files; without ca the client trusts the system's authorities. The result is nil if
// there are none.
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

// RequireClients lets a listener accept only clients with a certificate of the
// authorities in a PEM file. Without a file it changes nothing.
func RequireClients(c *tls.Config, ca string) (err error) {
	if ca == "" {
		return nil
	}
	c.ClientAuth = tls.RequireAndVerifyClientCert
	c.ClientCAs, err = Authorities(ca)
	return err
}
