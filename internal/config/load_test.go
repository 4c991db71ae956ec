package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// splitErrors returns the joined errors of Load.
func splitErrors(err error) []error {
	if err == nil {
		return nil
	}
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		return j.Unwrap()
	}
	return []error{err}
}

// keyOf returns the key of an error.
func keyOf(err error) string {
	var f *FieldError
	var u *UnknownKeyError
	switch {
	case errors.As(err, &f):
		return f.Key
	case errors.As(err, &u):
		return u.Key
	}
	return ""
}

func mustLoad(t *testing.T, yaml string) Config {
	t.Helper()
	c, err := Load("c.yaml", []byte(yaml), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A flag overrides the environment, the environment overrides the file, and the file overrides
// the default; an error names the source of the value.
func TestSources(t *testing.T) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.Int("partitions", 0, "")
	flags.String("dir", "", "")
	names := []string{"partitions", "dir"}
	ShowDefaults(flags, append(names, "engine")) // engine: a flag of all commands, absent in this set
	if got := flags.Lookup("partitions").DefValue; got != "0" {
		t.Errorf("help shows %q as default of --partitions", got)
	}
	file := []byte("stage:\n  rows: 7\n  partitions: 8\nserver:\n  dir: from-file\n")
	load := func() (Config, error) { return Load("c.yaml", file, flags, names) }

	c, err := load()
	if err != nil || c.Stage.Rows != 7 || c.Stage.Partitions != 8 || c.Server.Dir != "from-file" || c.Stage.Latency != 5*time.Millisecond {
		t.Errorf("%+v, %v; want the file's values, and defaults", c, err)
	}
	t.Setenv("EUSN_STAGE_ROWS", "9")
	t.Setenv("EUSN_STAGE_PARTITIONS", "10")
	t.Setenv("EUSN_NATS_TLS_FIRST", "1")
	t.Setenv("EUSN_SERVER_DIR", "") // counts as unset
	t.Setenv("EUSN_STAGE", "x")     // no key
	panicOnError(flags.Set("partitions", "11"))
	if c, err = load(); err != nil || c.Stage.Rows != 9 || c.Stage.Partitions != 11 || c.Server.Dir != "from-file" || !c.NATS.TLSFirst {
		t.Errorf("%+v, %v; want rows from the environment, partitions from the flag", c, err)
	}

	t.Setenv("EUSN_STAGE_ROWS", "many")
	panicOnError(flags.Set("partitions", "-1"))
	file = append(file, "log:\n  level: loud\nnats:\n  tls:\n    key: k\n"...)
	_, err = load()
	for _, want := range []string{
		"config: EUSN_STAGE_ROWS: key stage.rows: want a whole number, 1 to 16777216, got \"many\"\n",
		"config: --partitions: key stage.partitions: want a whole number, 0 to 4096, got -1\n",
		"config: c.yaml:7: key log.level: want debug, info, warn or error, got \"loud\"\n",
		"config: c.yaml:10: key nats.tls.cert: want both of nats.tls.cert and nats.tls.key, or none\n",
	} {
		if !strings.Contains(err.Error()+"\n", want) {
			t.Errorf("%v\nlacks %s", err, want)
		}
	}
	var f *FieldError
	if !errors.As(err, &f) || f.Key != "stage.rows" || f.Value != `"many"` || f.Source != (Source{Env: "EUSN_STAGE_ROWS"}) {
		t.Errorf("the first error is %+v", f)
	}
	if len(splitErrors(err)) != 4 {
		t.Errorf("%d problems, want 4:\n%v", len(splitErrors(err)), err)
	}
}

// Values keep their text, whatever YAML would read.
func TestValues(t *testing.T) {
	c := mustLoad(t, `
JOB: 7
model: &m 2024-01-01
nats: {password: "0123", user: 12.5, tls_first: "true"}
server: {dir: 'true', port: 0x10}
input: {max_message: 64KiB, reorder_bytes: "2 MB", max_bytes: 107374182400, max_age: 1h30m, reorder: -5}
stage: {rows: "12", latency: -1ms, readout: *m, max_slots: 1e3, idle: null, shards: , forget: 0}
log.level: warn
`)
	got := []any{c.Job, c.Model, c.NATS.Password, c.NATS.User, c.NATS.TLSFirst, c.Server.Dir, c.Server.Port,
		c.Input.MaxMessage, c.Input.ReorderBytes, c.Input.MaxBytes, c.Input.MaxAge, c.Input.Reorder,
		c.Stage.Rows, c.Stage.Latency, c.Stage.Readout, c.Stage.MaxSlots, c.Stage.Idle, c.Stage.Shards, c.Stage.Forget, c.Log.Level}
	want := []any{"7", "2024-01-01", "0123", "12.5", true, "true", 16,
		Bytes(64 << 10), Bytes(2e6), Bytes(100 << 30), 90 * time.Minute, -5,
		12, -time.Millisecond, "2024-01-01", 1000, time.Duration(0), 0, time.Duration(0), "warn"}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("value %d is %v, want %v", i, got[i], want[i])
		}
	}
	if c.IsSet("nats.url") || !c.IsSet("stage.rows") || !c.IsSet("log.level") {
		t.Errorf("set: %v", c.set)
	}
	defaults := mustLoad(t, string(DefaultYAML))
	if !defaults.IsSet("server.dir") { // at its default
		t.Errorf("set: %v", defaults.set)
	}
	defaults.set = map[string]bool{}
	for _, empty := range []string{"", "# nothing\n", "{}\n", "{}\n---\n# nothing more\n"} {
		if c := mustLoad(t, empty); !reflect.DeepEqual(c, defaults) {
			t.Errorf("%q gives %+v, not the defaults", empty, c)
		}
	}
}

// Load reports all problems together, each with its key and line.
func TestProblems(t *testing.T) {
	for _, c := range []struct{ yaml, want string }{
		{"stage:\n  row: 5\n", `config: c.yaml:2: unknown key "stage.row", nearest is "stage.rows"`},
		{"nets:\n  url: x\n", `config: c.yaml:2: unknown key "nets.url", nearest is "nats.url"`},
		{"a:\n  b:\n    c: 1\n", `config: c.yaml:2: unknown key "a.b", nearest is "job"`},
		{"? [a]\n: b\n", `config: c.yaml:1: unknown key "", nearest is "job"`},
		{"<<: {job: a}\n", `config: c.yaml:1: unknown key "<<.job", nearest is "job"`},
		{"stage: 5\n", `config: c.yaml:1: key stage: want a group of keys, such as stage.partitions, got 5`},
		{"stage:\n", `config: c.yaml:1: key stage: want a group of keys, such as stage.partitions, got nothing`},
		{"stage: {}\n", `config: c.yaml:1: key stage: want a group of keys, such as stage.partitions, got nothing`},
		{"job: &a {b: *a}\n", `config: c.yaml:1: key job: want at most 32 lower-case letters, digits, - and _, got a group of keys`},
		{"stage: &a\n  rows: 1\n  readout: *a\n", `config: c.yaml:3: key stage.readout: want a text, got an alias (*)`},
		{"job: a\nJob: b\n", `config: c.yaml:2: key job: want the key once, it is already in line 1`},
		{"stage: {rows: 1}\nstage.rows: 2\n", `config: c.yaml:2: key stage.rows: want the key once, it is already in line 1`},
		{"nats:\n  password: [secret]\n", `config: c.yaml:2: key nats.password: want a text, got a list`},
		{"nats:\n  password: 0123\n  user: a\n", `config: c.yaml:2: key nats.password: want a text, in quotes: without them YAML reads something else`},
		{"stage:\n  readout: 1.0\n", `config: c.yaml:2: key stage.readout: want a text, in quotes: without them YAML reads something else`},
		{"stage:\n  readout: true\n", `config: c.yaml:2: key stage.readout: want a text, in quotes: without them YAML reads something else`},
		{"model: !!binary bW9kZWw=\n", `config: c.yaml:1: key model: want the path of a model file, in quotes: without them YAML reads something else`},
		{"job: A B\n", `config: c.yaml:1: key job: want at most 32 lower-case letters, digits, - and _, got "A B"`},
		{"model: ''\n", `config: c.yaml:1: key model: want the path of a model file, got nothing`},
		{"server:\n  port:\n", `config: c.yaml:2: key server.port: want a whole number, -1 to 65535, got nothing`},
		{"stage:\n  rows: 1.5\n", `config: c.yaml:2: key stage.rows: want a whole number, 1 to 16777216, got 1.5`},
		{"stage:\n  rows: true\n", `config: c.yaml:2: key stage.rows: want a whole number, 1 to 16777216, got "true"`},
		{"dead_letters:\n  keep: 18446744073709551615\n", `config: c.yaml:2: key dead_letters.keep: want a whole number, not 0, got 18446744073709551615`},
		{"dead_letters:\n  keep: 0\n", `config: c.yaml:2: key dead_letters.keep: want a whole number, not 0, got 0`},
		{"input:\n  reorder: 65537\n", `config: c.yaml:2: key input.reorder: want a whole number, at most 65536, not 0, got 65537`},
		{"stage:\n  latency: 5\n", `config: c.yaml:2: key stage.latency: want a duration with its unit, such as 5ms or 10s, at most 1m, not 0s, got 5`},
		{"stage:\n  lease: 3m\n", `config: c.yaml:2: key stage.lease: want a duration with its unit, such as 5ms or 10s, 200ms to 2m, got "3m"`},
		{"stage:\n  lease: 9999999999h\n", `config: c.yaml:2: key stage.lease: want a duration with its unit, such as 5ms or 10s, 200ms to 2m, got "9999999999h"`},
		{"input:\n  max_bytes: 10000000TiB\n", `config: c.yaml:2: key input.max_bytes: want a number of bytes, or a size with its unit, such as 8MiB, at least -1, got "10000000TiB"`},
		{"input:\n  max_message: 1kib\n", `config: c.yaml:2: key input.max_message: want a number of bytes, or a size with its unit, such as 8MiB, 1KiB to 64MiB, got "1kib"`},
		{"nats:\n  tls_first: 2\n", `config: c.yaml:2: key nats.tls_first: want true or false, got 2`},
		{"nats:\n  user: a\n  token: b\n", `config: c.yaml:1: key nats: want at most one of nats.creds, nats.nkey, nats.user, nats.token, got nats.user and nats.token`},
		{"nats:\n  password: secret\n", `config: c.yaml:2: key nats.password: want nats.user with it`},
		{"metrics:\n  tls:\n    key: a\n", `config: c.yaml:3: key metrics.tls.cert: want both of metrics.tls.cert and metrics.tls.key, or none`},
		{"metrics:\n  tls:\n    ca: a\n", `config: c.yaml:3: key metrics.tls.ca: want metrics.tls.cert and metrics.tls.key with it`},
		{"metrics:\n  listen: :9464\n  token_file: a\n", `config: c.yaml:2: key metrics.listen: want metrics.tls.cert and metrics.tls.key with it, because passwords and tokens would be sent in clear text ("eusn-stream secure init" makes them), or 127.0.0.1, got ":9464"`},
		{"metrics:\n  listen: :9464\n", `config: c.yaml:2: key metrics.listen: want metrics.users or metrics.token_file, with metrics.tls.cert and metrics.tls.key, because other machines can reach the address ("eusn-stream secure init" makes them), or metrics.insecure: true in a network where you trust all users, or 127.0.0.1, got ":9464"`},
		{"server:\n  websocket: 127.0.0.1:8080\n", `config: c.yaml:2: key server.websocket: want server.users with it, because any web page in a browser on this machine could use it ("eusn-stream secure init" makes users), or nothing, got "127.0.0.1:8080"`},
		{"server:\n  dir: ''\n", `config: c.yaml:2: key server.dir: want a directory for the embedded server, or nats.url, got nothing`},
		{"stage:\n  partitions: 2\n  shards: 7\n", `config: c.yaml:3: key stage.shards: want at most one for each of the 2 partitions (stage.partitions), got 7`},
		{"stage:\n  idle: 2s\n  forget: 1s\n", `config: c.yaml:3: key stage.forget: want 0s, or no less than stage.idle, 2s, got 1s`},
		{"stage:\n  partitions: -1\n  shards: 7\n", `config: c.yaml:2: key stage.partitions: want a whole number, 0 to 4096, got -1`},
		{"gateway:\n  modbus:\n    registers:\n      a/x: holding:1:int16\n      a/y: holding:2\n      a/z: coil\n", `config: c.yaml:3: key gateway.modbus.registers: want registers, such as {pump7/x: holding:100:float32, pump7/y: input:7:int16 * 0.1 - 40}, got "a/y": "holding:2"`},
		{"gateway:\n  opcua:\n    nodes:\n      a/x: i=7\n      a/y: 7\n", `config: c.yaml:5: key gateway.opcua.nodes: want node ids, such as {pump7/x: ns=2;s=Pump7.X}, got "a/y": 7`},
		{"gateway:\n  opcua:\n    nodes:\n      a/x: i=7\n      a/y:\n", `config: c.yaml:5: key gateway.opcua.nodes: want node ids, such as {pump7/x: ns=2;s=Pump7.X}, got "a/y": nothing`},
		{"gateway:\n  opcua:\n    nodes:\n      a/x: i=7\n      a/x: i=8\n", `config: c.yaml:5: key gateway.opcua.nodes: want each name once, got "a/x" again`},
		{"- job\n", `config: c.yaml:1: want keys and values`},
		{"job\n", `config: c.yaml:1: want keys and values`},
		{"job: a\n---\njob: b\n", `config: c.yaml:2: want one YAML document, but a second document starts here`},
		{"log:\n  level: " + strings.Repeat("x", 1000) + "\n", `config: c.yaml:2: key log.level: want debug, info, warn or error, got "` + strings.Repeat("x", 80) + `..."`},
		{"log:\n  level: \"\\e[31m\\n\"\n", `config: c.yaml:2: key log.level: want debug, info, warn or error, got "\x1b[31m\n"`},
		{"job: A B\nstage:\n  rows: many\nmodle: x\n", `config: c.yaml:4: unknown key "modle", nearest is "model"
config: c.yaml:3: key stage.rows: want a whole number, 1 to 16777216, got "many"
config: c.yaml:1: key job: want at most 32 lower-case letters, digits, - and _, got "A B"`},
	} {
		_, err := Load("c.yaml", []byte(c.yaml), nil, nil)
		if err == nil || err.Error() != c.want {
			t.Errorf("%q gives\n%v, want\n%s", c.yaml, err, c.want)
		}
	}
	if _, err := Load("c.yaml", []byte("job: [\n"), nil, nil); err == nil || !strings.HasPrefix(err.Error(), "config: c.yaml:1: not valid YAML: ") {
		t.Errorf("what is no YAML gives %v", err)
	}
}

// A file of another kind gives few errors in a short time, whatever its keys.
func TestManyProblems(t *testing.T) {
	var many strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&many, "k%d: 1\n", i)
	}
	_, err := Load("c.yaml", []byte(many.String()), nil, nil)
	if n := len(splitErrors(err)); n != maxErrors+1 || !strings.HasSuffix(err.Error(), "config: c.yaml: 49980 more problems") {
		t.Errorf("%d problems, the last: %v", n, splitErrors(err)[n-1])
	}
	_, err = Load("c.yaml", []byte("? "+strings.Repeat("x", 1<<19)+"\n: 1\n"), nil, nil)
	if len(splitErrors(err)) != 1 || len(err.Error()) > 300 {
		t.Errorf("a long key gives %.300v", err)
	}
	// Nested groups, which YAML permits.
	_, err = Load("c.yaml", []byte(strings.Repeat("{a: ", 5000)+"1"+strings.Repeat("}", 5000)), nil, nil)
	if keyOf(splitErrors(err)[0]) != "a.a" {
		t.Errorf("a deep file gives %.300v", err)
	}
}

// Warnings list ineffective settings: variables similar to a key's variable, and keys in the
// file that a command does not use.
func TestUseless(t *testing.T) {
	got := similarVariables([]string{"EUSN_STAGE_ROW=1", "EUSN_STAGE_ROWS=1", "EUSN_MODLE=x", "EUSN_GATEWAY_OPC_URL=x", "EUSN_REQUIRE=all", "PATH=/bin", "EUSN_JOB=a"})
	want := []string{
		"EUSN_STAGE_ROW sets no key of the configuration: the nearest variable is EUSN_STAGE_ROWS",
		"EUSN_MODLE sets no key of the configuration: the nearest variable is EUSN_MODEL",
		"EUSN_GATEWAY_OPC_URL sets no key of the configuration: the nearest variable is EUSN_GATEWAY_OPCUA_URL",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	c := mustLoad(t, "job: a\nstage: {rows: 7, partitions: 0}\ngateway: {http: \":8080\", opcua: {nodes: {p/x: i=1}}}\nalarms: {rules: {}}\n")
	if got, want := c.Unused("job", "stage"), []string{"gateway.http", "gateway.opcua.nodes"}; !slices.Equal(got, want) {
		t.Errorf("unused are %q, want %q", got, want)
	}
	if got := c.Unused("job", "stage", "gateway"); got != nil {
		t.Errorf("unused are %q, want none", got)
	}
}

func TestNearest(t *testing.T) {
	keys := []string{"job", "model", "nats.url", "stage.rows", "stage.max_slots", "stage.max_streams", "input.max_bytes", "log.level"}
	for got, want := range map[string]string{
		"jop": "job", "stage.row": "stage.rows", "rows": "stage.rows", "nats.ulr": "nats.url", "url": "nats.url",
		"stage.maxslots": "stage.max_slots", "logs.level": "log.level", "input.max_byte": "input.max_bytes",
	} {
		if n := nearest(got, keys); n != want {
			t.Errorf("nearest to %q is %q, want %q", got, n, want)
		}
	}
}

// For arbitrary bytes, Load returns valid values, or errors with their place.
func FuzzLoad(f *testing.F) {
	f.Add(DefaultYAML)
	for _, s := range []string{
		"", "job: a\nJob: b\n", "stage: {rows: 1e3, latency: 5}\n", "a: &a {b: *a}\nnats: *a\n", "- x\n", "? [a]\n: !!binary YQ==\n",
		"a: 1\n---\n...\n--- b", "nats:\n  user: a\n  token: b\n", "input: {max_bytes: 5 GB, max_message: 0x400}\n", "stage.rows: !!float 1\n", "log: {level: \"\\0\"}\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := Load("c.yaml", raw, nil, nil)
		for _, p := range splitErrors(err) {
			if s := p.Error(); !strings.HasPrefix(s, "config: c.yaml:") || len(s) > 2000 {
				t.Errorf("%q gives %q, want a short error that begins with the place", raw, s)
			}
		}
		if err != nil {
			return
		}
		l := loader{config: c, failed: map[string]bool{}}
		for _, r := range append(c.rules(), l.exclusiveRules()...) {
			if r.broken {
				t.Errorf("%q was accepted, but %v want %s", raw, r.keys, r.want)
			}
		}
		for i := range fields {
			if !fields[i].accepts(l.fieldValue(&fields[i])) {
				t.Errorf("%q was accepted with %s = %v, want %s", raw, fields[i].key, l.fieldValue(&fields[i]), fields[i].want())
			}
		}
	})
}

// A number has one meaning in a file, in the environment and as a flag, or is refused: some
// tools read octal, others decimal.
func TestNumbersHaveOneMeaning(t *testing.T) {
	for _, odd := range []string{"010", "0100", "00", "-010", "+01", "0o10", "0b1", "1_000", "0x1_0", "12:30:00", "1,5"} {
		for _, key := range []string{"gateway.modbus.unit", "server.port", "stage.rows", "input.max_message", "stage.latency", "gateway.modbus.timeout"} {
			text := odd
			if key == "stage.latency" || key == "gateway.modbus.timeout" {
				text += "ms"
			}
			for source, value := range map[string]string{"file": text, "quoted": `"` + text + `"`} {
				_, err := Load("c.yaml", []byte(yamlOfKey(key, value)), nil, nil)
				if all := splitErrors(err); len(all) != 1 || keyOf(all[0]) != key {
					t.Errorf("%s: %s in a %s: %v", key, text, source, err)
				} else if !strings.ContainsAny(text, ":,") && !strings.Contains(err.Error(), "without leading zeros and underscores (10, not 010)") {
					t.Errorf("%s: %s: %v", key, text, err)
				}
			}
			env := envPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
			t.Setenv(env, text)
			if _, err := Load("c.yaml", nil, nil, nil); len(splitErrors(err)) != 1 || keyOf(splitErrors(err)[0]) != key {
				t.Errorf("%s=%s: %v", env, text, err)
			}
			t.Setenv(env, "")
		}
	}
	for text, want := range map[string]int{"0": 0, "10": 10, "0x10": 16, "1e3": 1000, "7.0": 7} {
		if c := mustLoad(t, "output: {keep: "+text+"}"); int(c.Output.Keep) != want {
			t.Errorf("%s: %d, want %d", text, c.Output.Keep, want)
		}
	}
	if c := mustLoad(t, "stage: {latency: 0.5ms}"); c.Stage.Latency != 500*time.Microsecond {
		t.Error(c.Stage.Latency)
	}
	for _, odd := range []string{"yes", "no", "on", "off", "y", "n"} { // booleans of YAML 1.1
		if _, err := Load("c.yaml", []byte("nats: {tls_first: "+odd+"}"), nil, nil); len(splitErrors(err)) != 1 {
			t.Errorf("tls_first: %s: %v", odd, err)
		}
		if c := mustLoad(t, "job: "+odd); c.Job != odd {
			t.Errorf("job: %s: %q", odd, c.Job)
		}
	}
}
