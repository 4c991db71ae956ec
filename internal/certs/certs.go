package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	// AuthorityLife and ServerLife are the validity periods of certificates. Some clients
	// refuse server certificates with more than 825 days.
	AuthorityLife = 10 * 365 * 24 * time.Hour
	ServerLife    = 2 * 365 * 24 * time.Hour

	clockSkew = time.Hour // tolerance for a device's slow clock
)

// Pair is a certificate and its private key, both PEM.
type Pair struct{ Cert, Key []byte }

// NewAuthority creates an authority for clients to trust.
func NewAuthority(name string, now time.Time) (Pair, error) {
	c := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-clockSkew), NotAfter: now.Add(AuthorityLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	return signCertificate(c, nil, nil)
}

// NewServer creates a server certificate for host names and addresses, signed by the authority.
// Its validity ends with the authority's at the latest.
func NewServer(authority Pair, hosts []string, now time.Time) (Pair, error) {
	ca, key, err := parsePair(authority)
	if err != nil {
		return Pair{}, fmt.Errorf("certs: the authority: %w", err)
	}
	if now.After(ca.NotAfter) {
		return Pair{}, fmt.Errorf("certs: the authority has expired: valid until %s", ca.NotAfter.UTC().Format(time.RFC3339))
	}
	c := &x509.Certificate{
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(ServerLife), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if c.NotAfter.After(ca.NotAfter) {
		c.NotAfter = ca.NotAfter
	}
	for _, h := range hosts {
		if err := CheckHost(h); err != nil {
			return Pair{}, fmt.Errorf("certs: %w", err)
		}
		if ip := net.ParseIP(h); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, h)
		}
	}
	if len(hosts) == 0 {
		return Pair{}, errors.New("certs: a server's certificate without a host name or address")
	}
	c.Subject.CommonName = hosts[0]
	if len(hosts[0]) > 64 { // X.509's limit; clients check the names above
		c.Subject.CommonName = "server"
	}
	return signCertificate(c, ca, key)
}

var hostName = regexp.MustCompile(`^(\*\.)?([A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.)*[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?$`)

// CheckHost refuses anything except a host name or an address without a port.
func CheckHost(h string) error {
	if net.ParseIP(h) != nil || len(h) <= 253 && hostName.MatchString(h) {
		return nil
	}
	return fmt.Errorf("host %q, want a name or an address without a port, such as plant.example or 10.0.0.5", h)
}

// ReadHosts returns the names and addresses of a server certificate.
func ReadHosts(cert []byte) ([]string, error) {
	c, err := parseCert(cert)
	if err != nil {
		return nil, fmt.Errorf("certs: %w", err)
	}
	hosts := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	return hosts, nil
}

// LocalHosts returns the names and addresses of this machine, with loopback, in a fixed order.
// Link-local addresses are excluded: clients need an interface in such an address, and a
// certificate cannot contain an interface.
func LocalHosts(hostname string, addrs []net.Addr) []string {
	hosts := []string{"localhost", "127.0.0.1", "::1"}
	if CheckHost(hostname) == nil && !slices.Contains(hosts, hostname) {
		hosts = slices.Insert(hosts, 0, hostname)
	}
	for _, a := range addrs {
		ip, _, err := net.ParseCIDR(a.String())
		if err != nil || ip.IsLinkLocalUnicast() || ip.IsLinkLocalMulticast() || slices.Contains(hosts, ip.String()) {
			continue
		}
		hosts = append(hosts, ip.String())
	}
	return hosts
}

// signCertificate creates a key and its certificate, self-signed without an issuer.
func signCertificate(c, issuer *x509.Certificate, signer *ecdsa.PrivateKey) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("certs: %w", err)
	}
	if issuer == nil {
		issuer, signer = c, key
	}
	if c.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return Pair{}, fmt.Errorf("certs: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, c, issuer, &key.PublicKey, signer)
	if err != nil {
		return Pair{}, fmt.Errorf("certs: %w", err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, fmt.Errorf("certs: %w", err)
	}
	return Pair{
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	}, nil
}

func parseCert(text []byte) (*x509.Certificate, error) {
	b, _ := pem.Decode(text)
	if b == nil || b.Type != "CERTIFICATE" {
		return nil, errors.New("no certificate in PEM")
	}
	return x509.ParseCertificate(b.Bytes)
}

func parsePair(p Pair) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	cert, err := parseCert(p.Cert)
	if err != nil {
		return nil, nil, err
	}
	b, _ := pem.Decode(p.Key)
	if b == nil || !strings.HasSuffix(b.Type, "PRIVATE KEY") {
		return nil, nil, errors.New("no private key in PEM")
	}
	private, err := x509.ParsePKCS8PrivateKey(b.Bytes)
	if err != nil {
		return nil, nil, err
	}
	key, ok := private.(*ecdsa.PrivateKey)
	if !ok || !key.PublicKey.Equal(cert.PublicKey) {
		return nil, nil, errors.New("the key does not match the certificate")
	}
	if !cert.IsCA {
		return nil, nil, errors.New("the certificate is not an authority certificate")
	}
	return cert, key, nil
}
