package live_test

import (
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
)

// A producer's key may contain escape sequences, because the server accepts them: the
// stage's log, its JSON, the list of dead letters and the states show them escaped.
func TestHostileKeys(t *testing.T) {
	t.Parallel()
	archive, dir := clitest.ImportTiny(t, 1), t.TempDir()
	model := filepath.Join(dir, "m")
	clitest.Must(t, "train", archive, "--members", "1", "--units", "5", "--output", model)
	stage := clitest.Start(t, "reading sensors.*", "run", "--model", model, "--dir", filepath.Join(dir, "data"), "--port", "-1", "--partitions", "1")
	url := clitest.ServerURL.FindString(stage.Messages())
	const key = "x\x1b]0;pwned\a"
	clitest.OnServer(t, url, func(js jetstream.JetStream) error {
		_, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: "sensors." + key, Data: []byte("junk")})
		return err
	})
	clitest.Await(t, url, 0, 1)
	for _, r := range []clitest.Result{
		clitest.Must(t, "deadletter", "list", "--nats-url", url),
		clitest.Must(t, "deadletter", "list", "--nats-url", url, "--json"),
		clitest.Exec(t, t.Context(), "state", "show", key, "--nats-url", url),
		stage.Stop(t),
	} {
		text := r.Out + r.ErrOut
		if strings.ContainsFunc(strings.NewReplacer("\n", "", "\t", "").Replace(text), unicode.IsControl) {
			t.Errorf("control characters: %q", text)
		}
		if !strings.Contains(text, "pwned") {
			t.Errorf("the key is not shown: %q", text)
		}
	}
}
