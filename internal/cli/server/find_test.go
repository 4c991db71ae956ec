package server

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
)

// The server of a command is the configured one, else NATS_URL, else the selected context of the
// nats command; but a configured data directory means the embedded server. The message has no
// password.
func TestSelectServer(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(home, "nats", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("context/plant.json", `{"description": "d", "url": "nats://u:secret@plant:4222", "user": "u", "password": "p", "ca": "/ca.pem", "inbox_prefix": "_INBOX.u", "color_scheme": ""}`)
	write("context/hidden.json", `{"url": "nats://h", "nsc": "nsc://o/a/u"}`)
	for _, c := range []struct {
		variable, selected, file string
		want                     config.NATS // only what is compared
		says, err                string
	}{
		{},
		{variable: "nats://v:1", want: config.NATS{URL: "nats://v:1"}, says: "NATS server nats://v:1, of the environment variable NATS_URL"},
		{variable: "nats://v:1", selected: "plant", want: config.NATS{URL: "nats://v:1"}, says: "NATS_URL"},
		{variable: "nats://v:1", selected: "plant", file: "nats: {url: nats://f:1}", want: config.NATS{URL: "nats://f:1"}},
		{selected: "plant", want: config.NATS{URL: "nats://u:secret@plant:4222", User: "u", Password: "p", InboxPrefix: "_INBOX.u", TLS: config.TLS{CA: "/ca.pem"}}, says: "NATS server nats://xxxxx@plant:4222, of the nats context plant"},
		{selected: "plant", file: "nats: {creds: /c, tls: {ca: /mine}}", want: config.NATS{URL: "nats://u:secret@plant:4222", Creds: "/c", InboxPrefix: "_INBOX.u", TLS: config.TLS{CA: "/mine"}}, says: "plant"},
		{variable: "nats://v:1", selected: "plant", file: "server: {dir: eusn-data}"},
		{selected: "hidden", err: "the selected nats context hidden"},
		{selected: "absent", err: "the selected nats context absent"},
	} {
		t.Setenv("NATS_URL", c.variable)
		write("context.txt", c.selected+"\n")
		conf, err := config.Load("c.yaml", []byte(c.file), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		err = selectServer(&cli.App{Stderr: &said}, &conf)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		conf.NATS.Replicas = 0
		if err != nil || conf.NATS != c.want || !strings.Contains(said.String(), c.says) || c.says == "" && said.Len() > 0 || strings.Contains(said.String(), "secret") {
			t.Errorf("%+v:\n%+v, %v, %q", c, conf.NATS, err, said.String())
		}
	}
}

// The note of a stage that crashed leads to no server, also if another one has its port now.
func TestStageOfANote(t *testing.T) {
	t.Parallel()
	start := func(dir string) *natsserver.Server {
		t.Helper()
		s, err := natsserver.Start(t.Context(), natsserver.Options{Dir: dir, Port: natsserver.RandomPort})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
	mine, others := t.TempDir(), t.TempDir()
	find := func() string { return StageURL(t.Context(), config.Config{Server: config.Server{Dir: mine}}) }
	s := start(mine)
	if url := find(); url != s.URL() {
		t.Errorf("%q, want %s", url, s.URL())
	}
	s.Close()
	if url := find(); url != "" {
		t.Errorf("after its end: %q", url)
	}
	other := start(others)
	crashed := `{"url": "` + other.URL() + `", "id": "the crashed one"}`
	if err := os.WriteFile(filepath.Join(mine, "eusn-server.json"), []byte(crashed), 0o600); err != nil {
		t.Fatal(err)
	}
	if url := find(); url != "" {
		t.Errorf("with another server on its port: %q", url)
	}
	other.Close()
	if url := find(); url != "" {
		t.Errorf("with no server on its port: %q", url)
	}
}
