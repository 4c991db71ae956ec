package watchcmd

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/discover"
)

// An address has a login and the names of an object; the path belongs to the server.
func TestParseOPCUA(t *testing.T) {
	for _, test := range []struct {
		text string
		want place
	}{
		{"opc.tcp://plc", place{scheme: schemeOPCUA, server: "opc.tcp://plc:4840"}},
		{"opc.tcp://u:p%23@plc:1/a/b#Plant/Line 1", place{scheme: schemeOPCUA, server: "opc.tcp://plc:1/a/b", filter: "Plant/Line 1", user: "u", password: "p#"}},
		{"opc.tcp://plc:1#Objects/Plant/", place{scheme: schemeOPCUA, server: "opc.tcp://plc:1", filter: "Plant"}},
		{"opc.tcp://plc:1#Objects", place{scheme: schemeOPCUA, server: "opc.tcp://plc:1"}},
	} {
		if got, err := parsePlace(test.text); err != nil || got != test.want {
			t.Errorf("%s: %+v, %v", test.text, got, err)
		}
	}
	if _, err := parsePlace("opc.tcp://u:secret@"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("no host: %v", err)
	}
	if got, _ := parsePlace("opc.tcp://plc:1/a#Plant/Line 1"); got.folder() != "watch-plc-Plant-Line-1" {
		t.Error(got.folder())
	}
}

// The configuration has the settings of the connection and any names, but no password.
func TestOPCUAText(t *testing.T) {
	base, err := config.Load("", nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	g := &base.Gateway.OPCUA
	g.Cert, g.Key, g.Trust, g.Security, g.Password, g.Sampling = "own.pem", "own.key", "plc.pem", "Basic256Sha256", "secret", time.Millisecond
	at, err := parsePlace("opc.tcp://gate:secret@plc:4840/x")
	if err != nil {
		t.Fatal(err)
	}
	w := &watcher{at: at}
	k := &discover.Kind{Machines: []string{"B/2", "A"}, Period: 10 * time.Millisecond, Nodes: map[string]map[string]string{
		"A":   {`oil "temp"/°C: #1`: "ns=2;s=\"A\".\"t\" #", "unused": "i=1"},
		"B/2": {`oil "temp"/°C: #1`: "ns=2;b=AQ==", "unused": "i=2"},
	}}
	text := w.configText(base.Gateway, k, []string{`oil "temp"/°C: #1`})
	c, err := config.Load("", []byte(text), nil, nil)
	if err != nil || strings.Contains(text, "secret") || strings.Contains(text, "unused") {
		t.Fatalf("%v\n%s", err, text)
	}
	o := c.Gateway.OPCUA
	nodes := o.Nodes.Map()
	if len(nodes) != 2 || nodes[`A/oil "temp"/°C: #1`] != "ns=2;s=\"A\".\"t\" #" || nodes[`B/2/oil "temp"/°C: #1`] != "ns=2;b=AQ==" {
		t.Errorf("%q", nodes)
	}
	own, _ := filepath.Abs("own.pem")
	if o.URL != "opc.tcp://plc:4840/x" || o.User != "gate" || o.Cert != own || o.Security != "Basic256Sha256" || o.Queue != 1000 || c.Gateway.Period != 10*time.Millisecond {
		t.Errorf("%+v", o)
	}
}

// Each kind has its own folder, job and page, and the printed command has no password.
func TestKinds(t *testing.T) {
	base, err := config.Load("", nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		url, dir    string
		kind, other int
		want        string
	}{
		{"opc.tcp://u:secret@plc:1/a#Plant", "plant", 1, 2, "eusn-stream watch 'opc.tcp://u:PASSWORD@plc:1/a#Plant' --kind 2 --save plant-kind2"},
		{"mqtt://u:sec@ret@plc/a@b/#", "a b", 1, 3, "eusn-stream watch 'mqtt://u:PASSWORD@plc/a@b/#' --kind 3 --save 'a b-kind3'"},
		{"mqtt://plc/+", "plant-kind2", 2, 1, "eusn-stream watch mqtt://plc/+ --kind 1 --save plant"},
	} {
		at, err := parsePlace(test.url)
		if err != nil {
			t.Fatal(err)
		}
		w := &watcher{at: at, o: options{url: test.url, dir: test.dir, kind: test.kind, learn: defaultLearn}}
		if got := w.commandOf(test.other); got != test.want {
			t.Errorf("%s, want %s", got, test.want)
		}
		c, err := config.Load("", []byte(w.configText(base.Gateway, &discover.Kind{Machines: []string{"m"}, Topics: "+"}, nil)), nil, nil)
		if first := test.kind == 1; err != nil || (c.Job == "eusn") != first || (c.Metrics.Listen == "127.0.0.1:9464") != first || (c.Server.Port == 4222) != first {
			t.Errorf("kind %d: %v, job %s, page %s, port %d", test.kind, err, c.Job, c.Metrics.Listen, c.Server.Port)
		}
	}
}
