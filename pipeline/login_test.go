package pipeline_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// A stage works, is stopped and continues with each login in docs/nats.md, and a
// connection without the login is refused.
func TestLogins(t *testing.T) {
	t.Parallel()
	for name, login := range map[string]func(t *testing.T) (conf string, o natsclient.Options){
		"nkey":               nkeyLogin,
		"JWT":                jwtLogin,
		"client certificate": certificateLogin(false),
		"TLS first":          certificateLogin(true),
		"token": func(*testing.T) (string, natsclient.Options) {
			return `authorization { token: "s3cret" }`, natsclient.Options{Token: "s3cret"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conf, o := login(t)
			o.URL = "nats://" + startConfigured(t, conf)
			o.Log = testLog(t)
			if nc, err := natsclient.Connect(t.Context(), natsclient.Options{URL: o.URL}); err == nil {
				nc.Close()
				t.Error("the server takes anybody: the test has lost its subject")
			}
			b := &rig{t: t, log: o.Log, connect: func(ctx context.Context, name string) (*nats.Conn, error) {
				o := o
				o.Name = name
				return natsclient.Connect(ctx, o)
			}}
			b.checkWork(t)
		})
	}
}

// A stage works at a leaf node: with a JetStream domain of its own, and without
// JetStream, if default_js_domain selects the hub's.
func TestLeafNodes(t *testing.T) {
	t.Parallel()
	for name, leaf := range map[string]string{
		"domain of its own": "jetstream { domain: edge, store_dir: %q }",
		"no JetStream":      "default_js_domain: { \"$G\": hub } # %q",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port := freePort(t)
			serveConfigured(t, fmt.Sprintf("server_name: hub\nlisten: 127.0.0.1:-1\njetstream { domain: hub, store_dir: %q }\nleafnodes { listen: \"127.0.0.1:%d\" }\n", t.TempDir(), port))
			at := serveConfigured(t, "server_name: edge\nlisten: 127.0.0.1:-1\n"+fmt.Sprintf(leaf, t.TempDir())+
				fmt.Sprintf("\nleafnodes { remotes: [ { url: \"nats://127.0.0.1:%d\" } ] }\n", port))
			b := &rig{t: t, log: testLog(t), url: "nats://" + at}
			b.readStreams()
			waitFor(t, "the link", func() bool { _, err := b.js.AccountInfo(t.Context()); return err == nil })
			b.checkWork(t)
		})
	}
}

// Jobs with the same name in two linked domains would answer each other: the second job
// is refused before it has created anything.
func TestJobInLinkedDomain(t *testing.T) {
	t.Parallel()
	for name, domain := range map[string]string{"named": "domain: hub, ", "without a name": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port := freePort(t)
			hub := serveConfigured(t, fmt.Sprintf("server_name: hub\nlisten: 127.0.0.1:-1\njetstream { %sstore_dir: %q }\nleafnodes { listen: \"127.0.0.1:%d\" }", domain, t.TempDir(), port))
			edge := serveConfigured(t, fmt.Sprintf("server_name: edge\nlisten: 127.0.0.1:-1\njetstream { domain: edge, store_dir: %q }\nleafnodes { remotes: [ { url: \"nats://127.0.0.1:%d\" } ] }", t.TempDir(), port))
			b := &rig{t: t, log: testLog(t), url: "nats://" + edge}
			b.readStreams()
			m, c := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked}), quickConfig("twice", 1)
			first := b.startStage(m, c)
			other := &rig{t: t, log: testLog(t), url: "nats://" + hub}
			other.readStreams()
			waitFor(t, "the link", func() bool {
				_, err := other.nc.Request(wire.RowSubject("twice", 0, 0), nil, time.Second)
				return err == nil
			})
			s := &pipeline.Worker{Job: pipeline.Job{Config: c, Model: m, NewEngine: pipelinetest.Generic, Dial: other.dialServer}}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			mentions(t, s.Run(ctx), "twice", "domain \"edge\"", "another name")
			if _, err := other.js.Stream(t.Context(), wire.InputStream("twice")); err == nil {
				t.Error("it has made its NATS streams")
			}
			first.stopStage(t)
		})
	}
}

// checkWork has a stage work, crash, and go on over the rig's connections.
func (b *rig) checkWork(t *testing.T) {
	t.Helper()
	b.readStreams()
	streams := pipelinetest.Recordings(4, 30)
	packets, sent := pipelinetest.Mixed(streams, 8)
	m := pipelinetest.Model(t, 3, reservoir.Policy{Kind: reservoir.Marked})
	c := quickConfig("login", 2)
	r := b.startStage(m, c)
	half := len(packets) / 2
	b.publishPackets(packets[:half])
	b.settleMessages(r, half)
	r.crashStage(t)
	b.expireMembers("login")
	r = b.startStage(m, c)
	b.publishPackets(packets[half:])
	exp := direct(t, m, streams, sent)
	same(t, b.awaitPredictions("login", count(exp)), exp)
	r.stopStage(t)
}

func nkeyLogin(t *testing.T) (string, natsclient.Options) {
	pair, pub := newKey(t, nkeys.CreateUser)
	seed, err := pair.Seed()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("accounts { A { jetstream: enabled, users: [ { nkey: %s } ] } }", pub), natsclient.Options{NKey: writeFile(t, "user.nk", seed)}
}

// jwtLogin returns the login of an operator, an account with JetStream and a user in
// it.
func jwtLogin(t *testing.T) (string, natsclient.Options) {
	operator, operatorPub := newKey(t, nkeys.CreateOperator)
	account, accountPub := newKey(t, nkeys.CreateAccount)
	_, systemPub := newKey(t, nkeys.CreateAccount)
	user, userPub := newKey(t, nkeys.CreateUser)
	sign := func(text string, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	oc := jwt.NewOperatorClaims(operatorPub)
	oc.SystemAccount = systemPub
	ac := jwt.NewAccountClaims(accountPub)
	ac.Limits.JetStreamLimits = jwt.JetStreamLimits{DiskStorage: -1, MemoryStorage: -1, Streams: -1, Consumer: -1}
	uc := jwt.NewUserClaims(userPub)
	text := sign(uc.Encode(account))
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	creds, err := jwt.FormatUserConfig(text, seed)
	if err != nil {
		t.Fatal(err)
	}
	conf := fmt.Sprintf("operator: %s\nsystem_account: %s\nresolver: MEMORY\nresolver_preload { %s: %s, %s: %s }\n",
		sign(oc.Encode(operator)), systemPub, accountPub, sign(ac.Encode(operator)), systemPub, sign(jwt.NewAccountClaims(systemPub).Encode(operator)))
	return conf, natsclient.Options{Creds: writeFile(t, "user.creds", creds)}
}

func newKey(t *testing.T, create func() (nkeys.KeyPair, error)) (pair nkeys.KeyPair, public string) {
	t.Helper()
	pair, err := create()
	if err == nil {
		public, err = pair.PublicKey()
	}
	if err != nil {
		t.Fatal(err)
	}
	return pair, public
}

// certificateLogin starts a server with required certificates of a single authority.
func certificateLogin(first bool) func(t *testing.T) (string, natsclient.Options) {
	return func(t *testing.T) (string, natsclient.Options) {
		ca := &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, Subject: pkix.Name{CommonName: "authority"}}
		caKey, caFile, _ := makeCertificate(t, "ca", ca, ca, nil)
		leaf := func(name string, use x509.ExtKeyUsage) (cert, key string) {
			_, cert, key = makeCertificate(t, name, &x509.Certificate{Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{use}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, ca, caKey)
			return cert, key
		}
		cert, key := leaf("server", x509.ExtKeyUsageServerAuth)
		conf := fmt.Sprintf("tls { cert_file: %q, key_file: %q, ca_file: %q, verify: true, timeout: 10, handshake_first: %v }", cert, key, caFile, first)
		o := natsclient.Options{CA: caFile, TLSHandshakeFirst: first}
		o.Cert, o.Key = leaf("worker", x509.ExtKeyUsageClientAuth)
		return conf, o
	}
}

// makeCertificate makes a certificate, self-signed if by is nil.
func makeCertificate(t *testing.T, name string, c, parent *x509.Certificate, by *ecdsa.PrivateKey) (key *ecdsa.PrivateKey, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if by == nil {
		by = key
	}
	c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return key, writeFile(t, name+".pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		writeFile(t, name+".key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
}

func writeFile(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
