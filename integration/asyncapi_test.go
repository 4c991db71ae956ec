package integration

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
)

// AsyncAPI's parser finds no errors in docs/asyncapi.json. TestAsyncAPI of
// internal/pipeline/wire checks that the subjects and headers match the program.
func TestAsyncAPIParses(t *testing.T) {
	dir := parts.RequireModule(t, "node", "tools/asyncapi", "@asyncapi/parser", "")
	out, err := exec.Command("node", filepath.Join(dir, "check.mjs"), "../docs/asyncapi.json").CombinedOutput()
	if err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
	t.Logf("%s", out)
}
