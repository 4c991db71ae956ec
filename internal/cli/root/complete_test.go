package root_test

import (
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
)

// A shell completes values, and files by their endings; without a server it completes no job.
func TestCompletion(t *testing.T) {
	t.Chdir(t.TempDir())
	for line, want := range map[string]string{
		"train --bank ":  "standard\nlarge\n",
		"demo --policy ": "marked\nwindow\n",
		"run --engine ":  "auto\n",
		"model export ":  "safetensors\n:8\n",
		"predict ":       "parquet\ncsv\n",
		"config check ":  "yaml\n",
		"run --model ":   "safetensors\n:8\n",
		"status --job ":  ":4\n",
		"model promote ": ":4\n",
		"model verify ":  "safetensors\n",
	} {
		args := append([]string{"__complete"}, strings.Split(line, " ")...)
		if r := clitest.Must(t, args...); !strings.Contains(r.Out, want) {
			t.Errorf("%scompletes to %q, want %q", line, r.Out, want)
		}
	}
}

// The help of a command shows related commands, and the used global flags.
func TestHelpShowsUse(t *testing.T) {
	for command, parts := range map[string][2]string{
		"train --help":  {"--engine", "eusn-stream import"},
		"status --help": {"--json", "eusn-stream explain"},
		"model --help":  {"eusn-stream model promote", "Examples:"},
	} {
		r := clitest.Must(t, strings.Fields(command)...)
		for _, part := range parts {
			if !strings.Contains(r.Out, part) {
				t.Errorf("%s lacks %q:\n%s", command, part, r.Out)
			}
		}
	}
	if r := clitest.Must(t, "status", "--help"); strings.Contains(r.Out, "--engine") {
		t.Errorf("status shows the engine:\n%s", r.Out)
	}
}
