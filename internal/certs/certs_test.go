package certs_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/certs"
)

// A client that trusts the authority accepts the server under each of its names and addresses,
// under no other name, and only during the validity of both certificates.
func TestCertificates(t *testing.T) {
	now := time.Now()
	authority, err := certs.NewAuthority("test", now)
	if err != nil {
		t.Fatal(err)
	}
	hosts := []string{"plant.example", "10.0.0.5", "fd00::2", "localhost"}
	server, err := certs.NewServer(authority, hosts, now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.X509KeyPair(server.Cert, server.Key); err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority.Cert)
	b, _ := pem.Decode(server.Cert)
	c, err := x509.ParseCertificate(b.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	accepted := func(host string, at time.Time) bool {
		_, err := c.Verify(x509.VerifyOptions{Roots: pool, DNSName: host, CurrentTime: at})
		return err == nil
	}
	for host, want := range map[string]bool{"plant.example": true, "10.0.0.5": true, "fd00:0::2": true, "localhost": true, "other.example": false, "10.0.0.6": false} {
		if accepted(host, now) != want {
			t.Errorf("accepted as %s: %v, want %v", host, !want, want)
		}
	}
	if accepted("localhost", now.Add(certs.ServerLife+time.Minute)) || !accepted("localhost", now.Add(certs.ServerLife-time.Minute)) {
		t.Error("the certificate is not valid for just ServerLife")
	}
	got, err := certs.ReadHosts(server.Cert)
	slices.Sort(got)
	slices.Sort(hosts)
	if err != nil || !slices.Equal(got, hosts) {
		t.Errorf("hosts %v, %v; want %v", got, err, hosts)
	}
	if late, err := certs.NewServer(authority, hosts, now.Add(certs.AuthorityLife-time.Hour)); err != nil {
		t.Error(err)
	} else if b, _ := pem.Decode(late.Cert); b != nil {
		if c, err := x509.ParseCertificate(b.Bytes); err != nil || c.NotAfter.After(now.Add(certs.AuthorityLife+time.Second)) {
			t.Errorf("a certificate lives longer than its authority: %v, %v", c.NotAfter, err)
		}
	}
	for _, wrong := range []certs.Pair{{}, {Cert: authority.Cert}, {Cert: authority.Cert, Key: server.Key}, {Cert: authority.Key, Key: authority.Cert}, server} {
		if _, err := certs.NewServer(wrong, hosts, now); err == nil || !strings.Contains(err.Error(), "the authority") {
			t.Errorf("with a wrong authority: %v", err)
		}
	}
	if _, err := certs.NewServer(authority, hosts, now.Add(2*certs.AuthorityLife)); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("with an old authority: %v", err)
	}
}

func TestHosts(t *testing.T) {
	for host, want := range map[string]bool{
		"a": true, "plant-1.example": true, "10.0.0.5": true, "::1": true, "*.example": true, "node_1": true, strings.Repeat("a", 63) + ".b": true,
		"": false, "a b": false, "plant:4222": false, "tls://plant": false, "[::1]": false, "10.0.0.5:4222": false, "-a": false, "a..b": false, "ü": false,
		strings.Repeat("a", 64): false, strings.Repeat("a.", 130) + "a": false, "a\n": false,
	} {
		if err := certs.CheckHost(host); (err == nil) != want {
			t.Errorf("host %q: %v", host, err)
		}
	}
	at := func(s string) net.Addr {
		ip, n, err := net.ParseCIDR(s)
		if err != nil {
			t.Fatal(err)
		}
		n.IP = ip
		return n
	}
	got := certs.LocalHosts("plant", []net.Addr{at("127.0.0.1/8"), at("10.0.0.5/24"), at("fe80::1/64"), at("::1/128"), at("fd00::2/64"), at("10.0.0.5/24")})
	if want := []string{"plant", "localhost", "127.0.0.1", "::1", "10.0.0.5", "fd00::2"}; !slices.Equal(got, want) {
		t.Errorf("hosts %v, want %v", got, want)
	}
	if got := certs.LocalHosts("no name", nil); !slices.Equal(got, []string{"localhost", "127.0.0.1", "::1"}) {
		t.Errorf("hosts %v", got)
	}
}
