package main

import (
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/viper"

	"github.com/eusn-stream/eusn-stream/pipeline"
)

// The documented defaults are those of the libraries.
func TestDefaultsAreThePipelines(t *testing.T) {
	c, err := loadConfig("", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, want := c.pipeline(), pipeline.Config{Shards: c.Stage.Shards}.WithDefaults()
	want.Shards = 0 // one per core, whatever this machine has
	if !reflect.DeepEqual(got, want) {
		t.Errorf("default.yaml gives\n%+v, the pipeline's defaults are\n%+v", got, want)
	}
}

// Every field has a documented key and every key a field.
func TestEveryKeyHasAField(t *testing.T) {
	v := viper.New()
	v.SetConfigType("yaml")
	if err := v.ReadConfig(strings.NewReader(string(defaultYAML))); err != nil {
		t.Fatal(err)
	}
	fields := map[string]bool{}
	var walk func(prefix string, typ reflect.Type)
	walk = func(prefix string, typ reflect.Type) {
		for i := range typ.NumField() {
			f := typ.Field(i)
			key := prefix + f.Tag.Get("mapstructure")
			if f.Type.Kind() == reflect.Struct {
				walk(key+".", f.Type)
			} else {
				fields[key] = true
			}
		}
	}
	walk("", reflect.TypeFor[Config]())
	for _, key := range v.AllKeys() {
		if !fields[key] {
			t.Errorf("default.yaml has %s, Config has no such field", key)
		}
		delete(fields, key)
	}
	for key := range fields {
		t.Errorf("Config has %s, default.yaml does not document it", key)
	}
}

func TestExampleConfigs(t *testing.T) {
	files, err := filepath.Glob("../../configs/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no example configurations found: %v", err)
	}
	for _, f := range files {
		must(t, "config", "check", f)
	}
}

// What the examples name under demo-data is what a demo leaves there (TestDemo).
func TestExamplesNameTheDemosFiles(t *testing.T) {
	var text strings.Builder
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		text.WriteString(c.Example + "\n")
		for _, child := range c.Commands() {
			visit(child)
		}
	}
	visit(newRoot(&app{stdout: io.Discard, stderr: io.Discard}))
	config, err := os.ReadFile("../../configs/embedded.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text.Write(config)
	named := regexp.MustCompile(`demo-data/\S+`).FindAllString(text.String(), -1)
	if len(named) < 4 {
		t.Errorf("the examples name only %v", named)
	}
	for _, path := range named {
		if path != "demo-data/machine.parquet" && path != "demo-data/machine.safetensors" {
			t.Errorf("an example names %s, which no demo writes", path)
		}
	}
}

func TestConfigInit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	must(t, "config", "init", file)
	if r := must(t, "config", "check", file); !strings.Contains(r.out, "ok") {
		t.Errorf("check says %q", r.out)
	}
	if err := os.WriteFile(file, []byte("job: mine\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	exec(t, t.Context(), "config", "init", file).want(t, exitFailure, "left as it is", "--force")
	if text, _ := os.ReadFile(file); string(text) != "job: mine\n" {
		t.Error("init without --force replaced the file")
	}
	must(t, "config", "init", "--force", file)

	// What cannot be replaced stays, with --force, too: a folder of the file's
	// name, a device (which a failed write once removed).
	dir := t.TempDir()
	exec(t, t.Context(), "config", "init", "--force", dir).want(t, exitFailure, "no regular file", "try: another name")
	pipe := filepath.Join(dir, "pipe")
	if err := os.Symlink(os.DevNull, pipe); err != nil {
		t.Fatal(err)
	}
	exec(t, t.Context(), "config", "init", "--force", pipe).want(t, exitFailure, "no regular file")
	if to, err := os.Readlink(pipe); err != nil || to != os.DevNull {
		t.Errorf("init --force replaced a device: %q, %v", to, err)
	}
	exec(t, t.Context(), "config", "init", filepath.Join(dir, "none", "c.yaml")).want(t, exitFailure, "there is no folder", "try: mkdir -p")
}

// A file that is no configuration is not read to its end.
func TestConfigOfAnySize(t *testing.T) {
	file := filepath.Join(t.TempDir(), "huge")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, maxConfig+1); err != nil {
		t.Fatal(err)
	}
	exec(t, t.Context(), "config", "check", file).want(t, exitConfig, "is longer than 1024 KiB", "try:")
	exec(t, t.Context(), "config", "check", filepath.Dir(file)).want(t, exitConfig, "is a folder", "try:")
}

func TestConfigProblems(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	for _, c := range []struct {
		name, yaml string
		says       []string
	}{
		{"unknown key", "stage:\n  row: 5\n", []string{`c.yaml:2: unknown key "stage.row", nearest is "stage.rows"`}},
		{"unknown section", "nets:\n  url: x\n", []string{`c.yaml:2`, `"nats.url"`}},
		{"section as value", "stage: 5\n", []string{"c.yaml:1: stage is a group of keys"}},
		{"two at once", "job: A B\nlog:\n  level: loud\n", []string{"c.yaml:1: key job", "c.yaml:3: key log.level"}},
		{"one of each kind", "modle: x\nstage:\n  rows: many\n  engine: turbo\nnats: nope\n", []string{`c.yaml:1: unknown key "modle"`, "c.yaml:3: key stage.rows", "c.yaml:4: key stage.engine", "c.yaml:5: nats is a group"}},
		{"wrong type", "\nstage:\n  rows: many\n", []string{"c.yaml:3: key stage.rows"}},
		{"duration", "stage:\n  latency: soon\n", []string{"c.yaml:2: key stage.latency"}},
		{"duration without unit", "stage:\n  latency: 5\n", []string{"c.yaml:2: key stage.latency", "with its unit"}},
		{"half a row", "stage:\n  rows: 1.5\n", []string{"c.yaml:2: key stage.rows: want a whole number, got 1.5"}},
		{"beyond 64 bits", "stage:\n  rows: 99999999999999999999\n", []string{"c.yaml:2: key stage.rows", "whole number"}},
		{"zero", "stage:\n  partitions: 0\n", []string{"c.yaml:2: key stage.partitions"}},
		{"range", "stage:\n  partitions: 100000\n", []string{"c.yaml:2", "want 1 to 4096"}},
		{"shards", "stage:\n  shards: 7\n  partitions: 2\n", []string{"c.yaml:2: key stage.shards"}},
		{"logins", "nats:\n  user: a\n  token: b\n", []string{"2 ways to log in"}},
		{"password", "nats:\n  password: a\n", []string{"c.yaml:2: key nats.password"}},
		{"sync", "server:\n  sync: often\n", []string{"c.yaml:2: key server.sync", `"often", want default or always`}},
		{"not YAML", "job: [\n", []string{"c.yaml"}},
		{"a list", "- job\n", []string{"c.yaml:1: want keys and values"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			write(t, file, c.yaml)
			r := exec(t, t.Context(), "config", "check", file)
			r.want(t, exitConfig, append(c.says, "try:")...)
			if n := strings.Count(r.errOut, "\n"); c.name == "one of each kind" && n != 5 { // and what to try
				t.Errorf("%d lines, want 5:\n%s", n, r.errOut)
			}
			if c.name == "two at once" {
				var out struct {
					OK       bool
					Problems []string
				}
				exec(t, t.Context(), "config", "check", "--json", file).parse(t, &out)
				if out.OK || len(out.Problems) != 2 {
					t.Errorf("--json tells %+v, want two problems", out)
				}
			}
		})
	}
	exec(t, t.Context(), "config", "check", file+".none").want(t, exitConfig, "no such file", "config init")
	write(t, file, "# nothing changed\n")
	must(t, "config", "check", file)
}

func TestEnvironmentOverridesFile(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "c.yaml"), "job: from-file\nstage:\n  rows: 7\n")
	t.Setenv("EUSN_STAGE_ROWS", "9")
	c, err := loadConfig(file, nil, nil)
	if err != nil || c.Stage.Rows != 9 || c.Job != "from-file" {
		t.Errorf("rows %d, job %q, error %v; want 9 from the environment, from-file from the file", c.Stage.Rows, c.Job, err)
	}
	t.Setenv("EUSN_STAGE_ROWS", "0")
	exec(t, t.Context(), "config", "check", file).want(t, exitConfig, "EUSN_STAGE_ROWS: key stage.rows")
}
