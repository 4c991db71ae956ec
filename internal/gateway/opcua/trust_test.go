package opcua

import (
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A configuration with the server's certificate and an own certificate never gets a connection
// without proof of identity.
func TestAutoWithTrustTakesNoUnprovedServer(t *testing.T) {
	dir := t.TempDir()
	id := newIdentity(t, dir, "own", time.Now(), 1)
	secure := Policies[2:]
	for _, w := range []struct {
		policy      string
		cert, trust bool
		want        []string
	}{
		{"auto", false, false, []string{"None"}},
		{"auto", false, true, []string{"None"}},
		{"auto", true, false, append([]string{"None"}, secure...)},
		{"auto", true, true, secure},
		{"None", true, true, []string{"None"}},
		{"Basic256Sha256", true, true, []string{"Basic256Sha256"}},
		{"Basic256Sha256", true, false, []string{"Basic256Sha256"}},
	} {
		o := Options{URL: "opc.tcp://plc:4840", Policy: w.policy, Login: "auto", Nodes: map[string]string{"p/x": "i=1"}, Channels: []string{"x"}}
		if w.cert {
			o.Cert, o.Key = id.cert, id.key
		}
		if w.trust {
			o.Trust = id.cert
		}
		c, err := newClient(nil, o)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range append(slices.Clone(Policies), "Basic128Rsa15", "") {
			if c.acceptsPolicy(p) {
				got = append(got, p)
			}
		}
		if !slices.Equal(got, w.want) {
			t.Errorf("security %s, own certificate %v, gateway.opcua.trust %v: takes %q, want %q", w.policy, w.cert, w.trust, got, w.want)
		}
		if message := c.noEndpoint().Error(); strings.Contains(message, "does not select None") != (w.policy == "auto" && w.cert && w.trust) {
			t.Errorf("security %s, own certificate %v, gateway.opcua.trust %v: %s", w.policy, w.cert, w.trust, message)
		}
	}
}

// Tools write text or other parts before a certificate.
func TestTrustIsRead(t *testing.T) {
	dir := t.TempDir()
	id := newIdentity(t, dir, "server", time.Now(), 1)
	der, err := os.ReadFile(id.der)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	key, err := os.ReadFile(id.key)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "trust")
	for name, w := range map[string]struct {
		file []byte
		good bool
	}{
		"DER":                     {der, true},
		"PEM":                     {cert, true},
		"PEM behind text":         {slices.Concat([]byte("Bag Attributes\n    friendlyName: plc\nsubject=CN=plc\n"), cert), true},
		"PEM behind a key":        {slices.Concat(key, cert), true},
		"a key alone":             {key, false},
		"nothing":                 {nil, false},
		"text":                    {[]byte("plc\n"), false},
		"half of a DER":           {der[:len(der)/2], false},
		"PEM of no certificate":   {pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}), false},
		"a beginning without end": {[]byte("-----BEGIN CERTIFICATE-----\nAAAA"), false},
	} {
		if err := os.WriteFile(path, w.file, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := readTrust(path)
		if (err == nil) != w.good || w.good && string(got) != string(der) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
}
