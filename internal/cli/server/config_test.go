package server

import (
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/formats"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// The documented defaults equal the libraries' defaults, except one: in Go, the zero value of
// the input format is Arrow.
func TestDefaultsAreThePipelines(t *testing.T) {
	c, err := config.Load("", nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, want := PipelineConfig(c), pipeline.Config{Shards: c.Stage.Shards}.WithDefaults()
	want.Shards = 0                   // one per core on any machine
	want.Partitions = 0               // the job's number
	want.Forget = 30 * 24 * time.Hour // in Go, zero means never
	if !got.Input.IsPlain() || len(want.Input.Differs(formats.Input{Format: formats.Arrow})) > 0 {
		t.Errorf("default.yaml reads messages as %+v, the pipeline as %+v", got.Input, want.Input)
	}
	got.Input = want.Input
	if !reflect.DeepEqual(got, want) {
		t.Errorf("default.yaml gives\n%+v, the pipeline's defaults are\n%+v", got, want)
	}
}

// The configuration and the pipeline accept the same values, key by key. The ranges of numbers
// are generated; this test checks the values next to the limits.
func TestRangesAreThePipelines(t *testing.T) {
	numbers := []string{"-9223372036854775808", "-2147483648", "-2", "-1", "1", "2", "5", "6", "64", "65"}
	for bits := 10; bits <= 32; bits++ {
		for _, n := range []int64{-1, 0, 1} {
			numbers = append(numbers, fmt.Sprint(int64(1)<<bits+n))
		}
	}
	durations := []string{"-1h", "-1ns", "1ns", "199999999ns", "200ms", "1s", "1m", "60000000001ns", "2m", "120000000001ns", "1000h"}
	texts := []string{"a", "A", "a b", "-a", "_", "0-_", strings.Repeat("a", 32), strings.Repeat("a", 33), "ü",
		"a.*", ".*", `"*"`, "a.b.*", "a..*", "$a.*", "a$.*", "a.$b.*", "a.>", "a.*.b", "a b.*", `"a\t.*"`, `"a\0.*"`, `">.*"`, "ü.*", "reject", "hold", "zero", "Hold"}
	defaults, err := config.Load("", nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	values := slices.Concat(numbers, durations, texts)
	compared := map[bool]int{}
	for _, key := range config.Keys() {
		switch {
		case key == "nats.replicas":
		case strings.HasPrefix(key, "nats."), strings.HasPrefix(key, "server."), strings.HasPrefix(key, "log."), strings.HasPrefix(key, "metrics."),
			key == "model", key == "stage.engine":
			continue // not a setting of the pipeline
		}
		for _, v := range values {
			group, name, in := strings.Cut(key, ".")
			yaml := fmt.Sprintf("%s: %s\n", group, v)
			if in {
				yaml = fmt.Sprintf("%s:\n  %s: %s\n", group, name, v)
			}
			c, err := config.Load("c.yaml", []byte(yaml), nil, nil)
			if reflect.DeepEqual(PipelineConfig(c), PipelineConfig(defaults)) {
				continue // the default, or invalid text for this type
			}
			byPipeline := PipelineConfig(c).Validate()
			compared[err == nil]++
			if (err == nil) != (byPipeline == nil) {
				t.Errorf("%q: configuration: %v; pipeline: %v", yaml, err, byPipeline)
			}
		}
	}
	if compared[true] < 300 || compared[false] < 300 {
		t.Errorf("%d values were compared that both take, %d that both refuse: too few", compared[true], compared[false])
	}
}

// A command names the keys of its file without an effect: the keys of parts that it does not start.
func TestKeysWithoutEffect(t *testing.T) {
	c, err := config.Load("c.yaml", []byte("gateway: {http: 127.0.0.1:1}\nalarms: {rules: {dead: flag flat}}\nstage: {partitions: 2}\n"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		uses []string
		want string
	}{
		{[]string{"stage"}, "keys=gateway.http,alarms.rules"},
		{[]string{"gateway"}, "keys=stage.partitions,alarms.rules"},
		{[]string{"stage", "gateway", "alarms"}, ""},
	} {
		var b strings.Builder
		LogWarnings(c, slog.New(slog.NewTextHandler(&b, nil)), row.uses...)
		if strings.Contains(b.String(), "WARN") || !strings.Contains(b.String(), row.want) || strings.Contains(b.String(), "keys=") != (row.want != "") {
			t.Errorf("%v: %s", row.uses, b.String())
		}
	}
}

// The flag --engine sets stage.engine in each command that has the flag.
func TestEngineFlag(t *testing.T) {
	t.Chdir(t.TempDir())
	f := pflag.NewFlagSet("predict", pflag.ContinueOnError)
	f.String("engine", "auto", "")
	if err := f.Parse([]string{"--engine", "generic"}); err != nil {
		t.Fatal(err)
	}
	c, err := StageConfig(&cli.App{Stdout: io.Discard, Stderr: io.Discard}, "", f, nil)
	if err != nil || c.Stage.Engine != "generic" {
		t.Errorf("engine %q, %v, want generic", c.Stage.Engine, err)
	}
}
