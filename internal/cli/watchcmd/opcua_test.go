package watchcmd_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
)

// The plant changes more often than the default sampling interval. No other test reads this variable.
func init() { os.Setenv("EUSN_GATEWAY_OPCUA_SAMPLING", "0s") }

// startPlant starts a plant as a foreign server of OPC UA. A line on stdin breaks its first pump.
func startPlant(t *testing.T, arg string) (url string, stdin io.Writer) {
	t.Helper()
	dir := parts.RequireModule(t, "fieldbus", "internal/cli/live/testdata/fieldbus", "node-opcua-server", " --omit=optional --ignore-scripts")
	cmd := exec.Command("node", "opcua-plant.mjs", arg)
	cmd.Dir = dir
	in, out := parts.StartProgram(t, cmd)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if text, found := strings.CutPrefix(lines.Text(), "at "); found {
			go io.Copy(io.Discard, out)
			return text, in
		}
	}
	t.Fatal("the OPC UA server does not start")
	return "", nil
}

// From an OPC UA server to verdicts: the command browses, finds machines, learns, saves a
// configuration, runs it, and finds a fault.
func TestWatchOPCUA(t *testing.T) {
	t.Parallel()
	url, stdin := startPlant(t, `{"pumps": 6, "hz": 200}`)
	dir := filepath.Join(t.TempDir(), "plant")
	w := startWatch(t, url+"#Hall", "--learn", "6s", "--save", dir)
	w.await(t, `"verdict"`, pipelinetest.Patience)
	fmt.Fprintln(stdin, "break")
	w.await(t, `"stream":"Hall/Pump_1","class":"novel"`, pipelinetest.Patience)
	seen := map[any]map[string]any{}
	for _, e := range w.end(t) {
		seen[e["event"]] = e
		if stream := fmt.Sprint(e["stream"]); e["event"] == nil && !strings.HasPrefix(stream, "Hall/Pump_") {
			t.Errorf("a prediction of a machine of another kind: %v", e)
		}
	}
	kinds, _ := seen["found"]["kinds"].([]any)
	if len(kinds) != 2 || fmt.Sprint(kinds[0].(map[string]any)["channels"]) != "[Current Flow Pressure]" || len(kinds[0].(map[string]any)["machines"].([]any)) != 6 {
		t.Errorf("found %v", kinds)
	}
	other := fmt.Sprint(seen["found"]["other"])
	for _, want := range []string{"Hall/Waiting: no value", "Hall/List: a value of type array of Double", "Hall/Pump 1/Serial: a value of type String"} {
		if !strings.Contains(other, want) {
			t.Errorf("unused variables: no %q in %s", want, other)
		}
	}
	if seconds := seen["period"]["period"]; seconds != .005 {
		t.Errorf("the period is %v s, want 0.005", seconds)
	}
	clitest.Must(t, "config", "check", filepath.Join(dir, "eusn-stream.yaml"))
}
