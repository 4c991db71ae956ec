package natsclient_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/pipelinetest"
	"github.com/eusn-stream/eusn-stream/pipeline/natsclient"
)

func TestConnectErrors(t *testing.T) {
	_, err := natsclient.Connect(natsclient.Options{URL: "nats://user:secret@127.0.0.1:1"})
	pipelinetest.Mentions(t, err, "127.0.0.1:1", "is it running")
	if err != nil && strings.Contains(err.Error(), "secret") {
		t.Errorf("the password is in the error: %v", err)
	}
	_, err = natsclient.Connect(natsclient.Options{Creds: "a", Token: "b"})
	pipelinetest.Mentions(t, err, "one of")
	_, err = natsclient.Connect(natsclient.Options{Cert: "a"})
	pipelinetest.Mentions(t, err, "both")
	_, err = natsclient.Connect(natsclient.Options{NKey: filepath.Join(t.TempDir(), "none")})
	pipelinetest.Mentions(t, err, "nkey", "none")
}
