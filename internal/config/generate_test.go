package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

var write = flag.Bool("write", false, "write the files that are generated from Config")

const (
	reference = "../../docs/configuration.md"
	settings  = "../../pipeline/settings.go"
)

// The generated files are up to date with Config.
func TestGenerated(t *testing.T) {
	docs := comments(t)
	text, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	before, after, ok := cutTable(string(text))
	if !ok {
		t.Fatalf("%s has no place for the table, between %q and %q", reference, tableBegin, tableEnd)
	}
	for path, want := range map[string]string{
		"default.yaml": yamlOf(docs),
		"schema.json":  schemaOf(t, docs),
		reference:      before + tableOf(docs) + after,
		settings:       settingsOf(t),
	} {
		if *write {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s differs from what Config says (%v); run: go generate ./internal/config", path, err)
		}
	}
}

// comments gives what each field's comment says, under its type and name.
func comments(t *testing.T) map[string]string {
	parsed, err := parser.ParseFile(token.NewFileSet(), "config.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	docs := map[string]string{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		typ, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if s, ok := typ.Type.(*ast.StructType); ok {
			for _, f := range s.Fields.List {
				text := strings.Join(strings.Fields(f.Doc.Text()), " ")
				if text == "" {
					t.Errorf("%s.%s has no comment to say what it is", typ.Name, f.Names[0])
				}
				docs[typ.Name.String()+"."+f.Names[0].Name] = text
			}
		}
		return true
	})
	return docs
}

// section is a group of keys. name is its path, empty for the keys without a group.
type section struct {
	name, about string
	keys        []field
}

func sectionsOf(docs map[string]string) []section {
	about := map[string]string{}
	var visit func(typ reflect.Type, prefix string)
	visit = func(typ reflect.Type, prefix string) {
		for f := range typ.Fields() {
			if f.Type.Kind() == reflect.Struct {
				name := prefix + f.Tag.Get("mapstructure")
				about[name] = docs[typ.Name()+"."+f.Name]
				visit(f.Type, name+".")
			}
		}
	}
	visit(reflect.TypeFor[Config](), "")
	var all []section
	for _, f := range fields {
		name := f.group()
		if len(all) == 0 || all[len(all)-1].name != name {
			all = append(all, section{name: name, about: about[name]})
		}
		last := &all[len(all)-1]
		last.keys = append(last.keys, f)
	}
	return all
}

// lastName is a path without the groups that are around it.
func lastName(path string) string { return path[strings.LastIndex(path, ".")+1:] }

// outer is the path of the group around a group; empty at the top.
func outer(path string) string { return path[:max(0, strings.LastIndex(path, "."))] }

// depth is how many groups a section is in, itself included.
func (s *section) depth() int {
	if s.name == "" {
		return 0
	}
	return 1 + strings.Count(s.name, ".")
}

// short is a key without its group.
func (f *field) short() string { return lastName(f.key) }

// values says which values a key may have, in few words; empty where its default
// shows it.
func (f *field) values() string {
	if f.enum != nil {
		return orList(f.enum)
	}
	return f.bounds()
}

const yamlHead = `eusn-stream: configuration of the stage (eusn-stream run -c FILE).

Every key is here with its default. Delete what you do not change.
An environment variable can set each key (EUSN_STAGE_ROWS sets stage.rows), and flags set some.
A flag wins over the environment, the environment over this file.
Check a file with: eusn-stream config check FILE
Editors complete and check it with the schema that "eusn-stream config schema" prints:
docs/configuration.md says how.`

// yamlOf is default.yaml.
func yamlOf(docs map[string]string) string {
	var b strings.Builder
	for line := range strings.Lines(yamlHead + "\n") {
		b.WriteString(strings.TrimRight("# "+strings.TrimSpace(line), " ") + "\n")
	}
	for _, s := range sectionsOf(docs) {
		indent := strings.Repeat("  ", s.depth())
		if s.name != "" {
			left := indent[2:]
			fmt.Fprintf(&b, "\n%s%s%s:\n", wrap(left+"# ", s.about), left, lastName(s.name))
		}
		for i, f := range s.keys {
			if s.name == "" || i > 0 {
				b.WriteString("\n")
			}
			value := f.preset
			if value == "" || value == "," {
				value = strconv.Quote(value) // as YAML wants it
			}
			fmt.Fprintf(&b, "%s%s%s: %s", wrap(indent+"# ", docs[f.goName]), indent, f.short(), value)
			if v := f.values(); v != "" {
				b.WriteString("  # " + v)
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

// wrap breaks a text into lines that begin with prefix.
func wrap(prefix, text string) string {
	var b strings.Builder
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(prefix)+len(line)+1+len(word) > 88 {
			b.WriteString(prefix + line + "\n")
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return b.String() + prefix + line + "\n"
}

const (
	tableBegin = "<!-- The keys, generated by: go generate ./internal/config -->\n"
	tableEnd   = "<!-- End of the keys. -->\n"
)

func cutTable(text string) (before, after string, ok bool) {
	before, rest, begins := strings.Cut(text, tableBegin)
	_, after, ends := strings.Cut(rest, tableEnd)
	return before + tableBegin, tableEnd + after, begins && ends
}

// tableOf is the reference of keys in Markdown.
func tableOf(docs map[string]string) string {
	var b strings.Builder
	for _, s := range sectionsOf(docs) {
		if s.name != "" {
			fmt.Fprintf(&b, "\n### %s\n\n%s\n", s.name, cell(s.about))
		}
		b.WriteString("\n| key | default | values | what it does | flag |\n|---|---|---|---|---|\n")
		for _, f := range s.keys {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", f.key, code(f.preset), cell(kindOf(&f)), cell(docs[f.goName]), code(strings.TrimSuffix("--"+f.flag, "--")))
		}
	}
	return b.String() + "\n"
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`, "_", `\_`).Replace(s)
}

// kindOf says which values a key takes, for the table.
func kindOf(f *field) string {
	kind := map[reflect.Type]string{
		reflect.TypeFor[string](): "text", reflect.TypeFor[bool](): "true or false", reflect.TypeFor[Bytes](): "size", reflect.TypeFor[Mapping](): "names and texts",
		reflect.TypeFor[time.Duration](): "duration", reflect.TypeFor[int](): "whole number", reflect.TypeFor[int64](): "whole number",
	}[f.typ]
	switch {
	case f.wantText != "":
		return f.wantText
	case f.enum != nil:
		return orList(f.enum)
	case f.bounds() != "":
		return kind + ", " + f.bounds()
	}
	return kind
}

// object is a JSON object whose members stay in order.
type object []member

type member struct {
	name  string
	value any
}

func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for i, m := range o {
		b.WriteString(map[bool]string{true: "{", false: ","}[i == 0])
		if err := enc.Encode(m.name); err != nil {
			return nil, err
		}
		b.WriteString(":")
		if err := enc.Encode(m.value); err != nil {
			return nil, err
		}
	}
	b.WriteString("}")
	return b.Bytes(), nil
}

// schemaOf is schema.json.
func schemaOf(t *testing.T, docs map[string]string) string {
	sections := sectionsOf(docs)
	var members func(path string) object
	members = func(path string) (all object) {
		for _, s := range sections {
			switch {
			case s.name == path:
				for _, f := range s.keys {
					all = append(all, member{f.short(), schemaOfField(t, &f, docs[f.goName])})
				}
			case s.name != "" && outer(s.name) == path:
				group := object{{"description", s.about}, {"type", "object"}, {"minProperties", 1}, {"additionalProperties", false}, {"properties", members(s.name)}}
				if pairs := atMostOne(s.keys); pairs != nil {
					group = append(group, member{"allOf", pairs})
				}
				all = append(all, member{lastName(s.name), group})
			}
		}
		return all
	}
	raw, err := json.Marshal(object{
		{"$schema", "https://json-schema.org/draft/2020-12/schema"},
		{"title", "eusn-stream: configuration of the stage"},
		{"description", "A file for eusn-stream run -c FILE. Every key is optional."},
		{"type", "object"}, {"additionalProperties", false}, {"properties", members("")},
	})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		t.Fatal(err)
	}
	return out.String() + "\n"
}

// durationPattern is what time.ParseDuration reads.
// A leading zero is refused.
const durationPattern = `(0|((0|[1-9][0-9]*)[.]?[0-9]*|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h)(([0-9]+[.]?[0-9]*|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))*)$`

func schemaOfField(t *testing.T, f *field, about string) object {
	v, err := parse(f.preset, f.typ)
	if err != nil {
		t.Fatalf("default of %s: %v", f.key, err)
	}
	s := object{{"description", about}}
	positive := f.min != nil && *f.min > 0 || f.refused != nil
	switch {
	case f.typ == reflect.TypeFor[time.Duration]():
		sign := "^[+-]?"
		if f.min != nil {
			sign = "^[+]?"
		}
		s = append(s, member{"type", "string"}, member{"pattern", sign + durationPattern})
		if positive { // some digit is not 0
			s = append(s, member{"not", object{{"pattern", "^[^1-9]*$"}}})
		}
		v = f.preset
	case f.typ == reflect.TypeFor[Bytes]():
		pattern := sizePattern
		if positive {
			pattern = strings.Replace(pattern, "(0|[1-9][0-9]*)", "[1-9][0-9]*", 1)
		}
		s = append(s, member{"type", []string{"integer", "string"}}, member{"pattern", pattern})
		s = append(s, bounds(f)...)
		if _, err := parseWhole(f.preset, 64); err != nil {
			v = f.preset
		}
	case f.typ == reflect.TypeFor[Mapping]():
		s = append(s, member{"type", []string{"object", "null"}}, member{"additionalProperties", object{{"type", "string"}, {"pattern", f.pattern.String()}}})
		v = map[string]string{}
	case f.typ.Kind() == reflect.Bool:
		s = append(s, member{"type", "boolean"})
	case f.typ.Kind() == reflect.String:
		s = append(s, member{"type", "string"})
		if f.enum != nil {
			s = append(s, member{"enum", f.enum})
		}
		if f.pattern != nil {
			s = append(s, member{"pattern", f.pattern.String()})
		}
		if f.minLength > 0 {
			s = append(s, member{"minLength", f.minLength})
		}
	default:
		s = append(s, member{"type", "integer"})
		s = append(s, bounds(f)...)
	}
	return append(s, member{"default", v})
}

// bounds are the least and the greatest number, those of 64 bits where there are
// no others.
func bounds(f *field) object {
	least, most := int64(-1<<63), int64(1<<63-1)
	if f.min != nil {
		least = *f.min
	}
	if f.max != nil {
		most = *f.max
	}
	o := object{{"minimum", least}, {"maximum", most}}
	if f.refused != nil {
		o = append(o, member{"not", object{{"const", *f.refused}}})
	}
	return o
}

// atMostOne refuses each pair of the keys of which at most one may have a
// value.
func atMostOne(keys []field) []object {
	var names []string
	for _, f := range keys {
		if f.alone != "" {
			names = append(names, f.short())
		}
	}
	var pairs []object
	given := object{{"minLength", 1}}
	for i, a := range names {
		for _, b := range names[i+1:] {
			pairs = append(pairs, object{{"not", object{{"required", []string{a, b}}, {"properties", object{{a, given}, {b, given}}}}}})
		}
	}
	return pairs
}

// jobFields are the fields of pipeline.Config, by the keys that set them. Where the zero
// value of a key has a meaning of its own, pipeline.Config has no default for it.
var jobFields = [][2]string{
	{"job", "Job"}, {"nats.replicas", "Replicas"},
	{"input.subject", "InputSubject"}, {"input.non_finite", "NonFinite"}, {"input.rate_tolerance", "RateTolerance"}, {"input.reorder", "Reorder"},
	{"input.reorder_bytes", "ReorderBytes"}, {"input.max_message", "MaxMessage"}, {"input.max_age", "InputMaxAge"}, {"input.max_bytes", "InputMaxBytes"},
	{"output.keep", "OutputKeep"}, {"dead_letters.keep", "DeadLetterKeep"},
	{"stage.partitions", "Partitions"}, {"stage.shards", "Shards"}, {"stage.rows", "RowBudget"}, {"stage.latency", "Latency"}, {"stage.max_slots", "MaxSlots"},
	{"stage.max_streams", "MaxStreams"}, {"stage.idle", "Idle"}, {"stage.forget", "Forget"}, {"stage.snapshot_messages", "SnapshotMessages"},
	{"stage.snapshot_every", "SnapshotEvery"}, {"stage.lease", "Lease"}, {"stage.stop_timeout", "StopTimeout"},
}

// settingsOf is pipeline/settings.go.
func settingsOf(t *testing.T) string {
	var b strings.Builder
	b.WriteString("// Code generated by go generate ./internal/config; DO NOT EDIT.\n\npackage pipeline\n\nimport \"math\"\n\n")
	fmt.Fprintf(&b, "const jobPattern = `%s`\n\n// defaults are those of the configuration file; times are in nanoseconds.\nvar defaults = Config{\n", byKey["job"].pattern)
	for _, f := range jobFields {
		v, err := parse(byKey[f[0]].preset, byKey[f[0]].typ)
		if err != nil {
			t.Fatal(err)
		}
		switch value := reflect.ValueOf(v); {
		case value.IsZero() || f[0] == "stage.forget":
		case value.Kind() == reflect.String:
			fmt.Fprintf(&b, "%s: %q,\n", f[1], v)
		default:
			fmt.Fprintf(&b, "%s: %d,\n", f[1], v)
		}
	}
	b.WriteString("}\n\n// ranges are those of the configuration file; times are in nanoseconds.\nvar ranges = []valueRange{\n")
	for _, f := range jobFields {
		if key := byKey[f[0]]; key.min != nil || key.max != nil {
			least, most := "math.MinInt64", "math.MaxInt64"
			if key.min != nil {
				least = fmt.Sprint(*key.min)
			}
			if key.max != nil {
				most = fmt.Sprint(*key.max)
			}
			fmt.Fprintf(&b, "{%q, %s, %s},\n", f[1], least, most)
		}
	}
	b.WriteString("}\n")
	text, err := format.Source([]byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
