package live_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
)

// A password in a URL appears in no message, for any error in the URL, at each key,
// flag and variable of the environment with a URL.
func TestPasswordsOfURLsAreNotShown(t *testing.T) {
	dir := t.TempDir()
	model := filepath.Join(dir, "model")
	clitest.Must(t, "import", clitest.TinyData(t, "Tiny", 2, 24, 40), "--output", filepath.Join(dir, "archive"))
	clitest.Must(t, "train", filepath.Join(dir, "archive"), "--output", model, "--bank", "euler", "--members", "1", "--units", "5", "--policy", "count", "--length", "10")
	const secret = "hunter"
	n := 0
	held := func(what string, args ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond) // some wait for a server
		defer cancel()
		r := clitest.Exec(t, ctx, args...)
		if all := r.Out + r.ErrOut; strings.Contains(all, secret) {
			t.Errorf("%s: the password is shown: %s", what, all)
		}
	}
	for _, bad := range []string{
		"SCHEME://user:hunter%zz@127.0.0.1:1", "SCHEME://user:hunter/x@127.0.0.1:1", "SCHEME://user:x#hunter@127.0.0.1:1", "SCHEME://user:hunter:x@127.0.0.1:port", "SCHEME://user:hunter y@127.0.0.1:1",
		"SCHEME://user:x@hunter@[127.0.0.1:1", "user:hunter@127.0.0.1:1", "gopher://user:hunter@127.0.0.1:1", "SCHEME://user:hunter\x7f@127.0.0.1:1", "SCHEME://a:1,SCHEME://user:hunter%zz@127.0.0.1:1",
	} {
		for key, scheme := range map[string]string{
			"nats.url": "nats", "server.hub": "tls", "alarms.webhook": "https", "alarms.alertmanager": "http", "alarms.mqtt": "tcp", "traces.endpoint": "http", "gateway.broker": "tcp", "gateway.opcua.url": "opc.tcp",
		} {
			url := strings.ReplaceAll(bad, "SCHEME", scheme)
			path := strings.Split(key, ".")
			group := path[0]
			n++
			other := "nats: {url: \"nats://127.0.0.1:1\"}\n"
			if group == "nats" || group == "server" {
				other = ""
			}
			file := clitest.Write(t, filepath.Join(dir, fmt.Sprint(n, ".yaml")), fmt.Sprintf("model: %s\n%s%s: %q%s\n", model, other, strings.Join(path, ": {"), url, strings.Repeat("}", len(path)-1)))
			held(key+" in a file", "config", "check", file)
			held(key+" in a file", "config", "check", file, "--json")
			if key == "nats.url" {
				held("--nats-url", "status", "--nats-url", url)
				held("--nats-url", "tail", "--nats-url", url)
				held("nats.url of run", "run", "-c", file)
			}
			if key == "gateway.broker" || key == "gateway.opcua.url" {
				held(key+" of gateway", "gateway", "-c", file, "--outbox", filepath.Join(dir, fmt.Sprint("outbox", n)))
			}
			if group == "alarms" {
				held(key+" of alarms run", "alarms", "run", "-c", file)
			}
			if group == "server" || group == "traces" {
				held(key+" of run", "run", "-c", file, "--dir", filepath.Join(dir, fmt.Sprint("data", n)), "--port", "-1")
			}
			env := "EUSN_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
			if !strings.Contains(url, "\x00") {
				t.Setenv(env, url)
				held(env, "config", "check", clitest.Write(t, filepath.Join(dir, "empty.yaml"), "model: "+model+"\n"))
				t.Setenv(env, "")
			}
		}
	}
}
