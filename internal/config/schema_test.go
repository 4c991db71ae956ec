package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"go.yaml.in/yaml/v3"
)

// compileSchema returns the schema in an independent validator, which checks the schema against
// draft 2020-12.
func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertVocabs()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if s.DraftVersion != 2020 {
		t.Fatalf("the schema is of draft %d", s.DraftVersion)
	}
	return s
}

// validateYAML returns the validator's error for a YAML file.
func validateYAML(t *testing.T, s *jsonschema.Schema, text string) error {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	return s.Validate(v)
}

// keysOf lists the keys in the validator's error.
func keysOf(err error) []string {
	var keys []string
	var visit func(e *jsonschema.ValidationError)
	visit = func(e *jsonschema.ValidationError) {
		path := strings.Join(e.InstanceLocation, ".")
		if unknown, ok := e.ErrorKind.(*kind.AdditionalProperties); ok {
			for _, name := range unknown.Properties {
				keys = append(keys, strings.TrimPrefix(path+"."+name, "."))
			}
		} else if len(e.Causes) == 0 {
			keys = append(keys, path)
		}
		for _, c := range e.Causes {
			visit(c)
		}
	}
	visit(err.(*jsonschema.ValidationError))
	return keys
}

func TestSchemaAcceptsDefaultsAndExamples(t *testing.T) {
	s := compileSchema(t)
	if err := validateYAML(t, s, string(DefaultYAML)); err != nil {
		t.Error(err)
	}
	examples, err := filepath.Glob("../../configs/*.yaml")
	if err != nil || len(examples) < 2 {
		t.Fatalf("examples %v, %v", examples, err)
	}
	for _, path := range examples {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := validateYAML(t, s, string(text)); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if _, err := Load(path, text, nil, nil); err != nil {
			t.Error(err)
		}
	}
}

// A validator with only the schema and the program refuse the same files, and both name the
// key.
func TestSchemaRejects(t *testing.T) {
	s := compileSchema(t)
	for _, c := range []struct{ name, yaml, key string }{
		{"unknown key", "stage:\n  row: 5\n", "stage.row"},
		{"unknown key at the top", "modle: x\n", "modle"},
		{"group as value", "stage: 5\n", "stage"},
		{"empty group", "stage: {}\n", "stage"},
		{"wrong type", "stage:\n  rows: many\n", "stage.rows"},
		{"fraction", "stage:\n  rows: 1.5\n", "stage.rows"},
		{"negative", "stage:\n  partitions: -1\n", "stage.partitions"},
		{"too many", "stage:\n  partitions: 100000\n", "stage.partitions"},
		{"beyond 64 bits", "dead_letters:\n  keep: 99999999999999999999\n", "dead_letters.keep"},
		{"zero where negative is all", "dead_letters:\n  keep: 0\n", "dead_letters.keep"},
		{"duration without unit", "stage:\n  latency: 5\n", "stage.latency"},
		{"no duration", "stage:\n  lease: soon\n", "stage.lease"},
		{"duration of nothing", "stage:\n  stop_timeout: 0h0s\n", "stage.stop_timeout"},
		{"negative duration", "input:\n  max_age: -1h\n", "input.max_age"},
		{"size with another unit", "input:\n  max_message: 1mb\n", "input.max_message"},
		{"size of nothing", "input:\n  reorder_bytes: 0MiB\n", "input.reorder_bytes"},
		{"not of the list", "server:\n  sync: often\n", "server.sync"},
		{"upper case", "job: Mine\n", "job"},
		{"subject", "input:\n  subject: sensors.>.x\n", "input.subject"},
		{"empty path", "model: ''\n", "model"},
		{"address", "metrics:\n  listen: localhost\n", "metrics.listen"},
		{"port of an address", "metrics:\n  listen: :65536\n", "metrics.listen"},
		{"logins", "nats:\n  user: a\n  token: b\n", "nats"},
		{"a list", "nats:\n  url: [a, b]\n", "nats.url"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := validateYAML(t, s, c.yaml)
			if err == nil {
				t.Error("the schema accepts it")
			} else if keys := keysOf(err); !slices.Contains(keys, c.key) {
				t.Errorf("the schema names %v, want %s: %v", keys, c.key, err)
			}
			_, err = Load("c.yaml", []byte(c.yaml), nil, nil)
			if p := splitErrors(err); len(p) != 1 || keyOf(p[0]) != c.key {
				t.Errorf("the program says %v, want one error of %s", err, c.key)
			}
		})
	}
}

// yamlOfKey returns a file with one key.
func yamlOfKey(key, value string) string {
	var b strings.Builder
	for i, name := range strings.Split(key, ".") {
		fmt.Fprintf(&b, "%s%s:", strings.Repeat("  ", i), name)
		if parts := strings.Count(key, ".") - i; parts > 0 {
			b.WriteString("\n")
		}
	}
	return b.String() + " " + value + "\n"
}

// Every field is a key in the schema, in default.yaml and in the reference, and there are no
// other keys.
func TestEveryKeyIsEverywhere(t *testing.T) {
	want := Keys()
	slices.Sort(want)
	same := func(place string, got []string) {
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s has %v\nwant %v", place, got, want)
		}
	}

	var schema map[string]any
	if err := json.Unmarshal(Schema, &schema); err != nil {
		t.Fatal(err)
	}
	var inSchema []string
	var visit func(prefix string, want map[string]any)
	visit = func(prefix string, want map[string]any) {
		for name, v := range want["properties"].(map[string]any) {
			if group := v.(map[string]any); group["properties"] != nil {
				visit(prefix+name+".", group)
			} else {
				inSchema = append(inSchema, prefix+name)
			}
		}
	}
	visit("", schema)
	same("the schema", inSchema)

	f, err := readFile("default.yaml", DefaultYAML)
	if err != nil || len(f.errs) > 0 {
		t.Fatal(err, f.errs)
	}
	var inFile []string
	for key, text := range f.texts {
		inFile = append(inFile, key)
		if text != byKey[key].preset {
			t.Errorf("default.yaml says %s: %s, the default is %s", key, text, byKey[key].preset)
		}
	}
	same("default.yaml", inFile)

	text, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	var inReference []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_.]+)` ").FindAllSubmatch(text, -1) {
		inReference = append(inReference, string(m[1]))
	}
	same(reference, inReference)
}

// goodValue returns a random valid value of the field, as YAML.
func goodValue(r *rand.Rand, f *field) string {
	if f.typ == reflect.TypeFor[Mapping]() {
		texts := []string{"{}", "{c0: $.axis.x}", `{"a b": "@.v * 0.1 - 40", c: "[3]"}`}
		if f.key == "gateway.opcua.nodes" {
			texts = []string{"{}", "{pump7/c0: ns=2;i=7}", `{"a b/c0": "ns=3;s=a b", a/c1: "i=85"}`}
		}
		if f.key == "gateway.modbus.registers" {
			texts = []string{"{}", "{pump7/c0: coil:7}", `{"a b/c0": "3/holding:100:float32:cdab", a/c1: "input:7:int16 * 0.1 - 40"}`}
		}
		if f.key == "alarms.rules" {
			texts = []string{"{}", "{a: class b, dead: flag flat}", `{"a": "class \"b c\" >= 0.8, 3 of 5", s: "silent 10m", n: novel 0.01, v: "low > 80, clear below 75"}`}
		}
		return texts[r.IntN(len(texts))]
	}
	between := func(least, maximum int64) int64 {
		least, maximum = max(least, -1<<40), min(maximum, 1<<40)
		if n := least + r.Int64N(maximum-least+1); f.refused == nil || n != *f.refused {
			return n
		}
		return maximum
	}
	least, maximum := int64(-1<<40), int64(1<<40)
	if f.min != nil {
		least = *f.min
	}
	if f.max != nil {
		maximum = *f.max
	}
	switch {
	case f.enum != nil:
		return f.enum[r.IntN(len(f.enum))]
	case f.pattern != nil:
		return map[string][]string{
			"job":                      {"a", `"0"`, "a-b_c", strings.Repeat("z", 32)},
			"input.subject":            {"a.*", "sensors.eu.1.*", `"ü$.*"`, "a$b.$c.*"},
			"alarms.webhook":           {`""`, "http://h", "https://host:8443/p?q=1", `""`},
			"alarms.alertmanager":      {`""`, "http://h:9093", "https://a/prefix,http://b:9093", `""`},
			"alarms.mqtt":              {`""`, "tcp://h:1883", "wss://h/mqtt", "ssl://h:8883"},
			"alarms.mqtt_prefix":       {"eusn-stream", "plant/x", `"a b/c"`, "a.b"},
			"input.job":                {`""`, "other", `"7"`, "b-c_d"},
			"input.from":               {"beginning", `"beginning"`, "beginning", "beginning"}, // other values require input.job
			"input.rows":               {`""`, "$.a[3]", `'$["a b"].c'`, `"[7]"`},
			"input.time":               {`""`, "$.a[3]", `'$["a b"].c'`, `"@.t"`},
			"input.stream":             {`""`, "dev", `'$["a b"].c'`, `"[7]"`},
			"input.end":                {`""`, "$.a[3]", `'$["a b"].c'`, `"[7]"`},
			"input.csv_separator":      {`","`, `";"`, `"\t"`, `"|"`},
			"server.listen":            {"127.0.0.1", "localhost", `"::1"`, "127.0.0.2"},
			"server.websocket_origins": {`""`, "https://a.example", "http://localhost:3000,https://b", "http://h"},
			"server.hub":               {`""`, "nats://h:7422", "tls://a:b@h:7422", `""`},
			"traces.endpoint":          {`""`, "http://h:4318/v1/traces", "http://127.0.0.1:4318/v1/traces", `""`},
			"metrics.listen":           {`""`, `"127.0.0.1:0"`, "127.0.0.1:65535", `"[::1]:9464"`},
		}[f.key][r.IntN(4)]
	case f.typ == reflect.TypeFor[time.Duration]():
		d := time.Duration(between(least, maximum))
		return d.String()
	case f.typ == reflect.TypeFor[Bytes]():
		n := between(least, maximum)
		if r.IntN(2) == 0 {
			return fmt.Sprint(n)
		}
		return fmt.Sprintf("%dB", n)
	case f.typ.Kind() == reflect.Bool:
		return fmt.Sprint(r.IntN(2) == 0)
	case f.typ.Kind() == reflect.String:
		return fmt.Sprintf("%q", []string{"a", "a/b c.safetensors", "ü: #x", "123"}[r.IntN(4)])
	}
	return fmt.Sprint(between(least, maximum))
}

// The schema and the program accept a random file of valid values.
func TestRandomFilesAreAccepted(t *testing.T) {
	s, r := compileSchema(t), rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var b strings.Builder
		var open []string // groups
		login := false
		for i := range fields {
			f := &fields[i]
			if strings.Contains(f.key, "tls.") {
				continue // these keys require others
			}
			switch f.key {
			case "alarms.mqtt_password", "nats.password", "stage.shards", "stage.forget",
				"metrics.users", "metrics.token_file", "server.websocket":
				continue // these keys require others
			}
			if r.IntN(2) == 0 || f.exclusive != "" && login {
				continue
			}
			login = login || f.exclusive != ""
			path := strings.Split(f.key, ".")
			for i := range path[:len(path)-1] {
				if name := strings.Join(path[:i+1], "."); !slices.Contains(open, name) {
					open = append(open[:i], name)
					fmt.Fprintf(&b, "%s%s:\n", strings.Repeat("  ", i), path[i])
				}
			}
			fmt.Fprintf(&b, "%s%s: %s\n", strings.Repeat("  ", len(path)-1), path[len(path)-1], goodValue(r, f))
		}
		if b.Len() == 0 {
			continue
		}
		if err := validateYAML(t, s, b.String()); err != nil {
			t.Fatalf("the schema refuses\n%s%v", b.String(), err)
		}
		if _, err := Load("c.yaml", []byte(b.String()), nil, nil); err != nil {
			t.Fatalf("the program refuses\n%s%v", b.String(), err)
		}
	}
}

// The schema and the program agree about any value for any key, except for those of isStricter and isLaxer.
func TestSchemaAgreesOnAnyValue(t *testing.T) {
	s := compileSchema(t)
	values := []string{
		"", "null", "~", `""`, "''", "0", "1", "-1", "2", "5", "1000", "65535", "65536", "65537", "1.0", "1e3", "1.5", "-0.5", ".nan", ".inf",
		"99999999999999999999", "-9223372036854775808", "9223372036854775807", "9223372036854775808", "true", "false", "yes", `"true"`, `"5"`, `"0"`, "0x10", "010",
		"0s", "0", "5ms", "-5ms", "+5ms", "1h30m", "1.5h", ".5s", "5.s", "1d", "5 s", "5", "1m0s", "2m1s", "100ms", "0.0s", "1e3s", "9999999h", "1µs", "-0s",
		"8MiB", "8 MiB", "0MiB", "1B", "8mb", "8KB", "8kB", "007B", "-1MiB", "1.5MiB", "9TiB", "[]", "[1]", "{}", "{a: 1}", "a", "a.b", "auto", "reject", "info", "text", "always", "gpu",
		"a.*", "$a.*", "a b.*", `"*"`, ".*", "a..*", "a.*.*", "a.>", `"a.\0.*"`, ":80", ":65536", "h:80", "h:http", "h", `"[::1]:80"`, "::1:80", "A", "-a", "a_b", "ü",
		strings.Repeat("a", 32), strings.Repeat("a", 33),
	}
	agreed, counts := map[bool]int{}, map[string]bool{}
	for i := range fields {
		f := &fields[i]
		alike := fmt.Sprint(f.typ, f.want(), f.preset)
		if counts[alike] {
			continue
		}
		counts[alike] = true
		if strings.HasSuffix(f.key, "tls.cert") || strings.HasSuffix(f.key, "tls.key") {
			continue // rules over several keys: TestProblems
		}
		switch f.key {
		case "alarms.mqtt_password", "nats.password", "server.dir", "metrics.listen", "server.websocket":
			continue // rules over several keys: TestProblems
		}
		for _, v := range values {
			text := yamlOfKey(f.key, v)
			var value any
			if err := yaml.Unmarshal([]byte(text), &value); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			for name := range strings.SplitSeq(f.key, ".") {
				value = value.(map[string]any)[name]
			}
			_, err := Load("c.yaml", []byte(text), nil, nil)
			bySchema := validateYAML(t, s, text)
			switch program, schema := err == nil, bySchema == nil; {
			case program == schema:
				agreed[program]++
			case schema && !isStricter(f, value) && !oddNumber.MatchString(v): // YAML reads the value before the schema sees it
				t.Errorf("%q: the schema accepts it, the program does not: %v", text, err)
			case program && !isLaxer(f, value):
				t.Errorf("%q: the program accepts it, the schema does not: %v", text, bySchema)
			}
		}
	}
	if agreed[true] < 300 || agreed[false] < 1500 {
		t.Errorf("the schema and the program agreed on %d good values and %d wrong ones: too few to have compared anything", agreed[true], agreed[false])
	}
}

// isStricter reports whether only the program may refuse the value: it detects durations and
// sizes out of range, more shards than the default number of partitions, and a server address
// reachable from other machines.
func isStricter(f *field, value any) bool {
	_, text := value.(string)
	return text && (f.typ == reflect.TypeFor[time.Duration]() || f.typ == reflect.TypeFor[Bytes]()) || f.key == "stage.shards" || slices.Contains([]string{"server.listen", "server.websocket"}, f.key)
}

// isLaxer reports whether only the program may accept the value: a number or a bool in quotes, a
// number or a bool for a text, 0 and 1 for a bool, a bare 0 or -0s for a duration, an empty
// text if the default is empty.
func isLaxer(f *field, value any) bool {
	_, text := value.(string)
	switch {
	case value == nil || value == "":
		return reflect.ValueOf(must(parseText(f.preset, f.typ))).IsZero()
	case f.typ.Kind() == reflect.String:
		return !text
	case f.typ.Kind() == reflect.Bool:
		return text || value == 0 || value == 1
	case f.typ == reflect.TypeFor[time.Duration]():
		return value == 0 || value == "-0s"
	}
	return text
}

func must(v any, err error) any {
	panicOnError(err)
	return v
}
