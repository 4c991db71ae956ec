package plants

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/offline"
)

// rig runs commands in a folder that has the data.
type rig struct {
	t    *testing.T
	data string // the folder with the data of all sets
	all  figures

	pictures map[string][]byte // the first picture of each name
	posts    int               // requests to gateways
}

// dataFolder returns the folder with public recordings of machines.
func dataFolder(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("EUSN_PLANTS")
	if dir == "" {
		dir = filepath.Join(root, "..", "shared", "datasets", "industrial")
	}
	if _, err := os.Stat(dir); err != nil {
		parts.Absent(t, "industrial", "no folder %s", dir)
	}
	return dir
}

// newRig returns a rig in a new folder. It links the folders of the data, or build writes parts of them.
func newRig(t *testing.T, data string, build func(t *testing.T, data string)) *rig {
	t.Helper()
	t.Chdir(t.TempDir())
	if build != nil {
		build(t, data)
		return &rig{t: t, data: data, all: figures{}, pictures: map[string][]byte{}}
	}
	entries, err := os.ReadDir(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		target, err := filepath.EvalSymlinks(filepath.Join(data, e.Name()))
		if err == nil {
			err = os.Symlink(target, e.Name())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return &rig{t: t, data: data, all: figures{}, pictures: map[string][]byte{}}
}

// evaluated is an evaluation on the command line.
type evaluated struct {
	offline.Evaluation
	Alarms alarm.Rehearsal `json:"alarms"`
	args   []string
}

// results are the outputs of a page's commands.
type results struct {
	trained   []json.RawMessage
	evaluated []evaluated
}

// runPage runs the commands of a page up to its evaluations. replace lists pairs of words in the commands and their
// replacements, for another part of the data.
func (r *rig) runPage(p page, replace ...string) (all results) {
	r.t.Helper()
	with := strings.NewReplacer(replace...)
	for _, c := range p.commands {
		args := make([]string, len(c))
		for i, word := range c {
			args[i] = with.Replace(word)
		}
		args = append(args, "--progress", "none")
		switch c[0] {
		case "import", "offline":
			clitest.Must(r.t, append(args, "--force")...)
		case "train":
			all.trained = append(all.trained, json.RawMessage(clitest.Must(r.t, append(args, "--json")...).Out))
		case "evaluate":
			e := evaluated{args: args}
			clitest.Must(r.t, append(args, "--json")...).Parse(r.t, &e)
			all.evaluated = append(all.evaluated, e)
			if name := option(c, "--picture"); name != "" && r.pictures[name] == nil {
				r.pictures[name] = clitest.Read(r.t, name)
			}
		}
	}
	return all
}

// rehearsed returns the evaluation with alarms.
func (all results) rehearsed() evaluated {
	return all.evaluated[slices.IndexFunc(all.evaluated, func(e evaluated) bool { return slices.Contains(e.args, rulesFlag) })]
}

// runPrinted runs the last two commands of the first block exactly as printed, until an alarm is raised. Commands before
// them have run. The environment sets free ports only.
func (r *rig) runPrinted(p page) {
	r.t.Helper()
	r.t.Setenv("EUSN_SERVER_PORT", "-1")
	r.t.Setenv("EUSN_METRICS_LISTEN", "127.0.0.1:0")
	stage := clitest.Start(r.t, "Ctrl-C stops", p.commands[p.first-2]...)
	defer stage.Stop(r.t)
	clitest.Must(r.t, p.commands[p.first-1]...)
	for end := time.Now().Add(pipelinetest.Patience); !strings.Contains(stage.Messages(), `msg="alarm raised"`); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("%s: no alarm within %v\n%s", p.name, pipelinetest.Patience, stage.Messages())
		}
	}
}

// note adds a row to the table.
func (r *rig) note(p page, figure, text string) {
	r.t.Logf("%s: %s: %s", p.name, figure, text)
	r.all[[2]string{p.name, figure}] = cells{figure, text, ""}
}
