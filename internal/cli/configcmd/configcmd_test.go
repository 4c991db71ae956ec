package configcmd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/configcmd"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/internal/testing/pipelinetest"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

func TestExampleConfigs(t *testing.T) {
	files, err := filepath.Glob("../../../configs/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no example configurations found: %v", err)
	}
	for _, f := range files {
		clitest.Must(t, "config", "check", f)
	}
}

func TestConfigInit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	clitest.Must(t, "config", "init", file)
	if r := clitest.Must(t, "config", "check", file); !strings.Contains(r.Out, "ok") {
		t.Errorf("check says %q", r.Out)
	}
	// 12 keys, or all; each with its default.
	c, err := config.Load(file, clitest.Read(t, file), nil, nil)
	if err != nil || len(c.InFile) > 0 {
		t.Errorf("%v, not a default: %v", err, c.InFile)
	}
	set := func() (n int) {
		for _, key := range config.Keys() {
			if c.IsSet(key) {
				n++
			}
		}
		return n
	}
	if n := set(); n != 12 {
		t.Errorf("%d keys:\n%s", n, clitest.Read(t, file))
	}
	clitest.Must(t, "config", "init", "--full", "--force", file)
	if c, err = config.Load(file, clitest.Read(t, file), nil, nil); err != nil || set() != len(config.Keys()) {
		t.Errorf("--full: %d keys, %v", set(), err)
	}
	if err := os.WriteFile(file, []byte("job: mine\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	clitest.Exec(t, t.Context(), "config", "init", file).Want(t, cli.ExitFailure, "was not changed", "--force")
	if text, _ := os.ReadFile(file); string(text) != "job: mine\n" {
		t.Error("init without --force replaced the file")
	}
	clitest.Must(t, "config", "init", "--force", file)

	// A file that cannot be replaced stays, even with --force: a folder of the file's name, a
	// device (which a failed write once removed).
	dir := t.TempDir()
	clitest.Exec(t, t.Context(), "config", "init", "--force", dir).Want(t, cli.ExitFailure, "not a regular file", "try: choose another name")
	pipe := filepath.Join(dir, "pipe")
	if err := os.Symlink(os.DevNull, pipe); err != nil {
		t.Fatal(err)
	}
	clitest.Exec(t, t.Context(), "config", "init", "--force", pipe).Want(t, cli.ExitFailure, "not a regular file")
	if to, err := os.Readlink(pipe); err != nil || to != os.DevNull {
		t.Errorf("init --force replaced a device: %q, %v", to, err)
	}
	clitest.Exec(t, t.Context(), "config", "init", filepath.Join(dir, "none", "c.yaml")).Want(t, cli.ExitFailure, "does not exist", "try: mkdir -p")
}

// Reading stops early in a file that is no configuration.
func TestConfigOfAnySize(t *testing.T) {
	file := filepath.Join(t.TempDir(), "huge")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, configcmd.MaxConfig+1); err != nil {
		t.Fatal(err)
	}
	clitest.Exec(t, t.Context(), "config", "check", file).Want(t, cli.ExitConfig, "is longer than 1024 KiB", "try:")
	clitest.Exec(t, t.Context(), "config", "check", filepath.Dir(file)).Want(t, cli.ExitConfig, "is a folder", "try:")
}

func TestConfigProblems(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	for _, c := range []struct {
		name, yaml string
		says       []string
	}{
		{"unknown key", "stage:\n  row: 5\n", []string{`c.yaml:2: unknown key "stage.row", nearest is "stage.rows"`}},
		{"unknown section", "nets:\n  url: x\n", []string{`c.yaml:2`, `"nats.url"`}},
		{"section as value", "stage: 5\n", []string{"c.yaml:1: key stage: want a group of keys"}},
		{"two at once", "job: A B\nlog:\n  level: loud\n", []string{"c.yaml:1: key job", "c.yaml:3: key log.level"}},
		{"one of each kind", "modle: x\nstage:\n  rows: many\n  engine: turbo\nnats: nope\n", []string{`c.yaml:1: unknown key "modle"`, "c.yaml:3: key stage.rows", "c.yaml:4: key stage.engine", "c.yaml:5: key nats: want a group of keys"}},
		{"wrong type", "\nstage:\n  rows: many\n", []string{"c.yaml:3: key stage.rows"}},
		{"duration", "stage:\n  latency: soon\n", []string{"c.yaml:2: key stage.latency"}},
		{"duration without unit", "stage:\n  latency: 5\n", []string{"c.yaml:2: key stage.latency", "with its unit"}},
		{"half a row", "stage:\n  rows: 1.5\n", []string{"c.yaml:2: key stage.rows: want a whole number", "got 1.5"}},
		{"beyond 64 bits", "stage:\n  rows: 99999999999999999999\n", []string{"c.yaml:2: key stage.rows", "whole number"}},
		{"negative", "stage:\n  partitions: -1\n", []string{"c.yaml:2: key stage.partitions"}},
		{"range", "stage:\n  partitions: 100000\n", []string{"c.yaml:2: key stage.partitions", "0 to 4096", "got 100000"}},
		{"shards", "stage:\n  shards: 7\n  partitions: 2\n", []string{"c.yaml:2: key stage.shards"}},
		{"logins", "nats:\n  user: a\n  token: b\n", []string{"c.yaml:1: key nats: want at most one of", "got nats.user and nats.token"}},
		{"password", "nats:\n  password: a\n", []string{"c.yaml:2: key nats.password"}},
		{"sync", "server:\n  sync: often\n", []string{"c.yaml:2: key server.sync", `want default or always, got "often"`}},
		{"not YAML", "job: [\n", []string{"c.yaml"}},
		{"a list", "- job\n", []string{"c.yaml:1: want keys and values"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			clitest.Write(t, file, c.yaml)
			r := clitest.Exec(t, t.Context(), "config", "check", file)
			r.Want(t, cli.ExitConfig, append(c.says, "try:")...)
			if n := strings.Count(r.ErrOut, "\n"); c.name == "one of each kind" && n != 5 { // with the advice
				t.Errorf("%d lines, want 5:\n%s", n, r.ErrOut)
			}
		})
	}
	clitest.Exec(t, t.Context(), "config", "check", file+".none").Want(t, cli.ExitConfig, "no such file", "config init")
	clitest.Write(t, file, "# nothing changed\n")
	clitest.Must(t, "config", "check", file)
}

// --json prints the place of each problem and the expected values, for programs.
func TestConfigProblemsAsJSON(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	type problem struct {
		Key, File, Environment, Want, Got, Nearest, Message string
		Line                                                int
	}
	t.Setenv("EUSN_STAGE_PARTITIONS", "-1")
	for name, c := range map[string]struct {
		yaml string
		want []problem
	}{
		"keys": {"job: A B\nstage:\n  row: 5\n  latency: soon\n", []problem{
			{Key: "stage.row", File: file, Line: 3, Want: "a key that exists", Nearest: "stage.rows",
				Message: file + `:3: unknown key "stage.row", nearest is "stage.rows"`},
			{Key: "stage.latency", File: file, Line: 4, Want: "a duration with its unit, such as 5ms or 10s, at most 1m, not 0s", Got: `"soon"`,
				Message: file + `:4: key stage.latency: want a duration with its unit, such as 5ms or 10s, at most 1m, not 0s, got "soon"`},
			{Key: "job", File: file, Line: 1, Got: `"A B"`},
			{Key: "stage.partitions", Environment: "EUSN_STAGE_PARTITIONS", Got: "-1"},
		}},
		"a list":  {"- job\n", []problem{{File: file, Line: 1, Message: file + ":1: want keys and values"}}},
		"no file": {"", []problem{{Message: file + ": no such file or directory"}}},
	} {
		t.Run(name, func(t *testing.T) {
			clitest.Write(t, file, c.yaml)
			if c.yaml == "" {
				os.Remove(file)
			}
			var out struct {
				File     string
				OK       bool
				Problems []problem
			}
			r := clitest.Exec(t, t.Context(), "config", "check", "--json", file)
			r.Want(t, cli.ExitConfig)
			r.Parse(t, &out)
			if out.OK || out.File != file || len(out.Problems) != len(c.want) {
				t.Fatalf("--json prints %+v, want %d problems", out, len(c.want))
			}
			for i, got := range out.Problems {
				want := c.want[i]
				if want.Message == "" { // the rest is the key's own text
					if got.Want == "" || !strings.Contains(got.Message, "want "+got.Want) || !strings.Contains(r.ErrOut, strings.Trim(strconv.Quote(got.Message), `"`)) {
						t.Errorf("problem %d: wants %q, says %q", i, got.Want, got.Message)
					}
					want.Want, want.Message = got.Want, got.Message
				}
				if got != want {
					t.Errorf("problem %d is\n%+v, want\n%+v", i, got, want)
				}
			}
		})
	}
	clitest.Write(t, file, "stage:\n  partitions: 2\n")
	t.Setenv("EUSN_STAGE_PARTITIONS", "")
	if r := clitest.Must(t, "config", "check", "--json", file); !strings.Contains(r.Out, `"problems":[]`) && !strings.Contains(r.Out, `"problems": []`) {
		t.Errorf("a right file prints %s", r.Out)
	}
}

// config check detects errors in alarm rules, which the stage does not read, before the alarm
// process starts.
func TestConfigRules(t *testing.T) {
	dir := t.TempDir()
	good := clitest.Write(t, filepath.Join(dir, "good.yaml"), "alarms:\n  rules:\n    worn: class worn >= 0.8, 3 of 5, clear below 0.5\n    new: novel 0.01, 3 of 5\n    full: value > 7\n")
	model := filepath.Join(dir, "m.safetensors")
	clitest.Must(t, "config", "check", good)
	bad := clitest.Write(t, filepath.Join(dir, "bad.yaml"), "alarms:\n  rules:\n    worn: class worn, decided\n    new: novel 0.01\n    night: flag flat, quiet 25:00-06:00\n")
	clitest.Exec(t, t.Context(), "config", "check", bad).Want(t, cli.ExitConfig, `rule "worn"`, `rule "night"`, "try: docs/alarm-rules.md")
	r := clitest.Exec(t, t.Context(), "config", "check", bad, "--json")
	var output struct {
		OK       bool
		Problems []struct{ Key, Got, Message string }
	}
	r.Parse(t, &output)
	if output.OK || len(output.Problems) != 2 || output.Problems[0].Key != "alarms.rules.night" || output.Problems[1].Got != "class worn, decided" || !strings.Contains(output.Problems[1].Message, "decided") {
		t.Errorf("it says %s", r.Out)
	}

	// Without the model its classes are unknown, so there is a warning.
	r = clitest.Must(t, "config", "check", clitest.Write(t, filepath.Join(dir, "absent.yaml"), "model: "+model+"\nalarms:\n  rules:\n    odd: class novell\n"))
	if !strings.Contains(r.ErrOut, "warning: key alarms.rules: the classes that rules name could not be checked: ") {
		t.Errorf("without a model file it says %s", r.ErrOut)
	}

	// With the model, alarms that it never raises are known.
	if err := pipelinetest.Model(t, 2, reservoir.Policy{Kind: reservoir.Marked}).Save(model); err != nil {
		t.Fatal(err)
	}
	known := clitest.Write(t, filepath.Join(dir, "known.yaml"), "model: "+model+"\nalarms:\n  rules:\n    flat: flag flat\n    new: novel 0.01\n")
	lines := clitest.Must(t, "config", "check", known)
	if want := "warning: key alarms.rules.new: a rule requires novelty"; !strings.Contains(lines.ErrOut, want) {
		t.Errorf("it does not say %q:\n%s", want, lines.ErrOut)
	}
	if strings.Contains(lines.ErrOut, "rules.flat") || strings.Contains(lines.ErrOut, "classes") {
		t.Errorf("a rule that every model can raise:\n%s", lines.ErrOut)
	}

	// A class unknown to the model is an error.
	odd := clitest.Write(t, filepath.Join(dir, "odd.yaml"), "model: "+model+"\nalarms:\n  rules:\n    odd: class novell\n")
	clitest.Exec(t, t.Context(), "config", "check", odd).Want(t, cli.ExitConfig, `rule "odd"`, `"novell" is not one of [`, "try: docs/alarm-rules.md")
	r = clitest.Exec(t, t.Context(), "config", "check", odd, "--json")
	r.Parse(t, &output)
	if output.OK || len(output.Problems) != 1 || output.Problems[0].Key != "alarms.rules.odd" || output.Problems[0].Got != "class novell" {
		t.Errorf("it says %s", r.Out)
	}

	// An unknown readout is a warning: no class can be compared.
	other := clitest.Write(t, filepath.Join(dir, "other.yaml"), "model: "+model+"\nstage: {readout: other}\nalarms:\n  rules:\n    odd: class novell\n")
	if r = clitest.Must(t, "config", "check", other); !strings.Contains(r.ErrOut, `could not be checked: the model has no readout "other"`) {
		t.Errorf("with another readout it says %s", r.ErrOut)
	}
}

// config check detects errors in the alarm outputs before the alarm process starts.
func TestConfigOutputs(t *testing.T) {
	dir := t.TempDir()
	good := clitest.Write(t, filepath.Join(dir, "good.yaml"), "alarms:\n  mqtt: tcp://h:1883\n  alertmanager: http://a:9093\n  alertmanager_labels: {severity: page}\n")
	clitest.Must(t, "config", "check", good)
	bad := clitest.Write(t, filepath.Join(dir, "bad.yaml"), "alarms:\n  rules: {worn: 'class a, decided'}\n  mqtt: 'tcp://?x'\n  alertmanager: http://a:9093/api/v2/alerts\n  alertmanager_labels: {key: x}\n  tls: {ca: nowhere.pem}\n")
	clitest.Exec(t, t.Context(), "config", "check", bad).Want(t, cli.ExitConfig)
	r := clitest.Exec(t, t.Context(), "config", "check", bad, "--json")
	var output struct {
		OK       bool
		Problems []struct{ Key string }
	}
	r.Parse(t, &output)
	if want := "[{alarms.rules.worn} {alarms.tls} {alarms.mqtt} {alarms.alertmanager_labels} {alarms.alertmanager}]"; output.OK || fmt.Sprint(output.Problems) != want {
		t.Errorf("it says %s, want %s", r.Out, want)
	}
}

func TestEnvironmentOverridesFile(t *testing.T) {
	file := clitest.Write(t, filepath.Join(t.TempDir(), "c.yaml"), "job: from-file\nstage:\n  rows: 7\n")
	t.Setenv("EUSN_STAGE_ROWS", "9")
	c, err := configcmd.Load(file, nil, nil)
	if err != nil || c.Stage.Rows != 9 || c.Job != "from-file" {
		t.Errorf("rows %d, job %q, error %v; want 9 from the environment, from-file from the file", c.Stage.Rows, c.Job, err)
	}
	t.Setenv("EUSN_STAGE_ROWS", "0")
	clitest.Exec(t, t.Context(), "config", "check", file).Want(t, cli.ExitConfig, "EUSN_STAGE_ROWS: key stage.rows")
}

// The command prints the schema that a validator checks in internal/config, and the schema has
// every key.
func TestConfigSchema(t *testing.T) {
	type object struct{ Properties map[string]object }
	var schema struct {
		Draft string `json:"$schema"`
		object
	}
	r := clitest.Must(t, "config", "schema")
	if r.Out != string(config.Schema) {
		t.Error("the command prints something else than the schema")
	}
	r.Parse(t, &schema)
	if schema.Draft != "https://json-schema.org/draft/2020-12/schema" {
		t.Errorf("the schema is of %s", schema.Draft)
	}
	for _, key := range config.Keys() {
		node, known := schema.object, true
		for name := range strings.SplitSeq(key, ".") {
			if known {
				node, known = node.Properties[name]
			}
		}
		if !known {
			t.Errorf("the schema lacks %s", key)
		}
	}
}
