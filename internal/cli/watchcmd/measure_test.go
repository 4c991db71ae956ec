package watchcmd_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/cli/root"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
)

// watchUntil runs watch until its output has a text.
func watchUntil(t *testing.T, text string, args ...string) clitest.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	var out bytes.Buffer
	errOut := &clitest.StopAt{Text: text, Cancel: cancel, W: new(clitest.LockedBuffer)}
	code := root.Run(ctx, append([]string{"watch", "--port", "-1", "--metrics-listen", ""}, args...), &out, errOut)
	return clitest.Result{Code: code, Out: out.String(), ErrOut: errOut.W.(*clitest.LockedBuffer).String()}
}

// measureTables learns the beginning of tables by watch, and evaluates the model on later.
func measureTables(t *testing.T, tables, later string) {
	t.Helper()
	dir := t.TempDir()
	plant := filepath.Join(dir, "plant")
	r := watchUntil(t, "saved in", tables, "--save", plant)
	if r.Code != 0 && r.Code != 130 {
		t.Fatalf("exit code %d\n%s", r.Code, r.ErrOut)
	}
	raw, err := os.ReadFile(filepath.Join(plant, "eusn-stream.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, rules, _ := strings.Cut(string(raw), "  rules:\n")
	var kept []string
	for line := range strings.Lines(rules) {
		if !strings.Contains(line, "silent:") {
			kept = append(kept, strings.TrimSpace(line)+"\n")
		}
	}
	file := clitest.Write(t, filepath.Join(dir, "rules.yaml"), strings.Join(kept, ""))
	e := clitest.Must(t, "evaluate", later, "--model", filepath.Join(plant, "model.safetensors"), "--alarms", file)
	var short []string
	for line := range strings.Lines(e.Out) {
		if strings.HasPrefix(line, "novelty") || strings.Contains(line, "AUROC") || strings.Contains(line, "unlike") || strings.Contains(line, "alarms  ") {
			short = append(short, line)
		}
	}
	t.Logf("%s\n%s", r.ErrOut[strings.Index(r.ErrOut, "learned"):], strings.Join(short, ""))
}

// TestMeasurePlants measures the detectors of simulated plants: EUSN_ACCURACY=watch.
func TestMeasurePlants(t *testing.T) {
	if !parts.Accuracy("watch") {
		t.Skip("EUSN_ACCURACY does not name watch")
	}
	for _, p := range plants {
		t.Run(p.name, func(t *testing.T) {
			tables, later := p.writeTables(t, t.TempDir(), 240+1800, 240+1200)
			measureTables(t, tables, later)
		})
	}
}
