package root_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
)

// A shell completes values, and files by their endings; without a server it completes no job.
func TestCompletion(t *testing.T) {
	t.Chdir(t.TempDir())
	for line, want := range map[string]string{
		"train --bank ":    "standard\nlarge\n",
		"demo --policy ":   "marked\nwindow\n",
		"run --engine ":    "auto\n",
		"model export ":    "safetensors\n:8\n",
		"predict ":         "parquet\ncsv\n",
		"import ":          "csv\ntxt\n",
		"import --rows ":   "samples\nruns\n",
		"import --target ": "remaining\n",
		"import --stream ": ":4\n",
		"config check ":    "yaml\n",
		"run --model ":     "safetensors\n:8\n",
		"status --job ":    ":4\n",
		"model promote ":   ":4\n",
		"model verify ":    "safetensors\n",
	} {
		args := append([]string{"__complete"}, strings.Split(line, " ")...)
		if r := clitest.Must(t, args...); !strings.Contains(r.Out, want) {
			t.Errorf("%scompletes to %q, want %q", line, r.Out, want)
		}
	}
}

// The help of a command names documents that exist, and shows the command's own flags first.
func TestHelpShowsDocuments(t *testing.T) {
	for _, command := range strings.Fields("train evaluate predict import record model offline demo run gateway replay tail alarms config secure labels learn bench deadletter doctor explain job plan state status") {
		r := clitest.Must(t, command, "--help")
		named := regexp.MustCompile(`\n  (docs/\S+)`).FindAllStringSubmatch(r.Out, -1)
		if len(named) == 0 {
			t.Errorf("%s --help names no document", command)
		}
		for _, m := range named {
			if _, err := os.Stat("../../../" + m[1]); err != nil {
				t.Errorf("%s --help: %v", command, err)
			}
		}
	}
	r := clitest.Must(t, "tail", "--help")
	if own, common := strings.Index(r.Out, "      --since"), strings.Index(r.Out, "      --nats-url"); own < 0 || common < own {
		t.Errorf("tail --help shows common flags before its own:\n%s", r.Out)
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
