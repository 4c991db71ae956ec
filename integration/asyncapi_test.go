package integration

import (
	"os"
	"os/exec"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
)

// AsyncAPI's own parser finds nothing wrong with docs/asyncapi.json. That its
// subjects and headers are the program's, TestAsyncAPI of pipeline/internal/wire
// checks.
func TestAsyncAPIParses(t *testing.T) {
	if _, err := exec.LookPath("node"); err != nil {
		parts.Absent(t, "node", "no node: docs/asyncapi.json is not parsed")
	}
	if _, err := os.Stat("../tools/asyncapi/node_modules/@asyncapi/parser"); err != nil {
		parts.Absent(t, "node", "AsyncAPI's parser is not installed: npm ci --prefix tools/asyncapi")
	}
	out, err := exec.Command("node", "../tools/asyncapi/check.mjs", "../docs/asyncapi.json").CombinedOutput()
	if err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
	t.Logf("%s", out)
}
