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
	"slices"
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

// The generated files match Config.
func TestGenerated(t *testing.T) {
	docs := fieldComments(t)
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

// fieldComments returns the comment of each field, by type and name.
func fieldComments(t *testing.T) map[string]string {
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

// section is a group of keys. Its name is the path, empty for keys without a group.
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

// lastName returns the last element of a path.
func lastName(path string) string { return path[strings.LastIndex(path, ".")+1:] }

// outerPath returns the path of the enclosing group; empty at the top.
func outerPath(path string) string { return path[:max(0, strings.LastIndex(path, "."))] }

// depth returns the number of enclosing groups, including the section.
func (s *section) depth() int {
	if s.name == "" {
		return 0
	}
	return 1 + strings.Count(s.name, ".")
}

// short returns a key without its group.
func (f *field) short() string { return lastName(f.key) }

// values describes the valid values of a key in few words; empty if its default shows them.
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

// yamlOf returns default.yaml.
func yamlOf(docs map[string]string) string {
	var b strings.Builder
	for line := range strings.Lines(yamlHead + "\n") {
		b.WriteString(strings.TrimRight("# "+strings.TrimSpace(line), " ") + "\n")
	}
	for _, s := range sectionsOf(docs) {
		indent := strings.Repeat("  ", s.depth())
		if s.name != "" {
			right := indent[2:]
			fmt.Fprintf(&b, "\n%s%s%s:\n", wrapText(right+"# ", s.about), right, lastName(s.name))
		}
		for i, f := range s.keys {
			if s.name == "" || i > 0 {
				b.WriteString("\n")
			}
			value := f.preset
			if value == "" || value == "," {
				value = strconv.Quote(value) // as YAML requires
			}
			fmt.Fprintf(&b, "%s%s%s: %s", wrapText(indent+"# ", docs[f.goName]), indent, f.short(), value)
			if v := f.values(); v != "" {
				b.WriteString("  # " + v)
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

// wrapText breaks a text into lines with a prefix.
func wrapText(prefix, text string) string {
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
	before, remainder, begins := strings.Cut(text, tableBegin)
	_, after, ends := strings.Cut(remainder, tableEnd)
	return before + tableBegin, tableEnd + after, begins && ends
}

// tableOf returns the table of keys in Markdown.
func tableOf(docs map[string]string) string {
	var b strings.Builder
	for _, s := range sectionsOf(docs) {
		if s.name != "" {
			fmt.Fprintf(&b, "\n### %s\n\n%s\n", s.name, markdownCell(s.about))
		}
		b.WriteString("\n| key | default | values | function | flag |\n|---|---|---|---|---|\n")
		for _, f := range s.keys {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", f.key, markdownCode(f.preset), markdownCell(kindOf(&f)), functionOf(s.name, docs[f.goName]), markdownCode(strings.TrimSuffix("--"+f.flag, "--")))
		}
	}
	return b.String() + "\n"
}

// functionOf describes what a key of a group does, for the table.
func functionOf(group, text string) string {
	if strings.HasSuffix(group, "tls") { // ca, cert and key of all groups are alike
		return "[one form of TLS](#one-form-of-tls)"
	}
	return markdownCell(text)
}

func markdownCode(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

func markdownCell(s string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`, "_", `\_`).Replace(s)
}

// kindOf describes the valid values of a key for the table.
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

// object is a JSON object with ordered members.
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

// schemaOf returns schema.json.
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
			case s.name != "" && outerPath(s.name) == path:
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
	var schema bytes.Buffer
	if err := json.Indent(&schema, raw, "", "  "); err != nil {
		t.Fatal(err)
	}
	return schema.String() + "\n"
}

// durationPattern matches the texts that time.ParseDuration accepts, without leading zeros.
const durationPattern = `(0|((0|[1-9][0-9]*)[.]?[0-9]*|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h)(([0-9]+[.]?[0-9]*|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))*)$`

func schemaOfField(t *testing.T, f *field, about string) object {
	v, err := parseText(f.preset, f.typ)
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
		if positive { // at least one digit is not 0
			s = append(s, member{"not", object{{"pattern", "^[^1-9]*$"}}})
		}
		v = f.preset
	case f.typ == reflect.TypeFor[Bytes]():
		pattern := sizePattern
		if positive {
			pattern = strings.Replace(pattern, "(0|[1-9][0-9]*)", "[1-9][0-9]*", 1)
		}
		s = append(s, member{"type", []string{"integer", "string"}}, member{"pattern", pattern})
		s = append(s, numberBounds(f)...)
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
		s = append(s, numberBounds(f)...)
	}
	return append(s, member{"default", v})
}

// numberBounds returns the minimum and the maximum; the limits of 64 bits by default.
func numberBounds(f *field) object {
	least, maximum := int64(-1<<63), int64(1<<63-1)
	if f.min != nil {
		least = *f.min
	}
	if f.max != nil {
		maximum = *f.max
	}
	o := object{{"minimum", least}, {"maximum", maximum}}
	if f.refused != nil {
		o = append(o, member{"not", object{{"const", *f.refused}}})
	}
	return o
}

// atMostOne refuses each pair of an exclusive set of keys.
func atMostOne(keys []field) []object {
	var names []string
	for _, f := range keys {
		if f.exclusive != "" {
			names = append(names, f.short())
		}
	}
	var pairs []object
	required := object{{"minLength", 1}}
	for i, a := range names {
		for _, b := range names[i+1:] {
			pairs = append(pairs, object{{"not", object{{"required", []string{a, b}}, {"properties", object{{a, required}, {b, required}}}}}})
		}
	}
	return pairs
}

// jobFields maps fields of pipeline.Config to keys. pipeline.Config has no default for the keys
// of zeroMeans.
var jobFields = [][2]string{
	{"job", "Job"}, {"nats.replicas", "Replicas"},
	{"input.subject", "InputSubject"}, {"input.non_finite", "NonFinite"}, {"input.rate_tolerance", "RateTolerance"}, {"input.reorder", "Reorder"},
	{"input.reorder_bytes", "ReorderBytes"}, {"input.max_message", "MaxMessage"}, {"input.max_age", "InputMaxAge"}, {"input.max_bytes", "InputMaxBytes"},
	{"output.keep", "OutputKeep"}, {"dead_letters.keep", "DeadLetterKeep"},
	{"stage.partitions", "Partitions"}, {"stage.shards", "Shards"}, {"stage.rows", "RowBudget"}, {"stage.latency", "Latency"}, {"stage.max_slots", "MaxSlots"},
	{"stage.max_streams", "MaxStreams"}, {"stage.idle", "Idle"}, {"stage.forget", "Forget"}, {"stage.snapshot_messages", "SnapshotMessages"},
	{"stage.snapshot_every", "SnapshotEvery"}, {"stage.lease", "Lease"}, {"stage.stop_timeout", "StopTimeout"},
}

// zeroMeans are the keys of jobFields whose zero value has its own meaning.
var zeroMeans = []string{"stage.forget", "input.max_bytes", "output.keep"}

// settingsOf returns pipeline/settings.go.
func settingsOf(t *testing.T) string {
	var b strings.Builder
	b.WriteString("// Code generated by go generate ./internal/config; DO NOT EDIT.\n\npackage pipeline\n\nimport \"math\"\n\n")
	fmt.Fprintf(&b, "const jobPattern = `%s`\n\n// defaults are those of the configuration file; times are in nanoseconds.\nvar defaults = Config{\n", byKey["job"].pattern)
	for _, f := range jobFields {
		v, err := parseText(byKey[f[0]].preset, byKey[f[0]].typ)
		if err != nil {
			t.Fatal(err)
		}
		switch value := reflect.ValueOf(v); {
		case value.IsZero() || slices.Contains(zeroMeans, f[0]):
		case value.Kind() == reflect.String:
			fmt.Fprintf(&b, "%s: %q,\n", f[1], v)
		default:
			fmt.Fprintf(&b, "%s: %d,\n", f[1], v)
		}
	}
	b.WriteString("}\n\n// ranges are those of the configuration file; times are in nanoseconds.\nvar ranges = []valueRange{\n")
	for _, f := range jobFields {
		if key := byKey[f[0]]; key.min != nil || key.max != nil {
			least, maximum := "math.MinInt64", "math.MaxInt64"
			if key.min != nil {
				least = fmt.Sprint(*key.min)
			}
			if key.max != nil {
				maximum = fmt.Sprint(*key.max)
			}
			fmt.Fprintf(&b, "{%q, %s, %s},\n", f[1], least, maximum)
		}
	}
	b.WriteString("}\n")
	text, err := format.Source([]byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
