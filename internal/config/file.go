package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/agnivade/levenshtein"
	"go.yaml.in/yaml/v3"
)

// file is what a YAML file says: the text of each key, and in which line.
type file struct {
	name  string
	texts map[string]string
	lines map[string]int
	errs  []error
	more  int // errors beyond mostErrors
}

// mostErrors is how many problems of a file are reported one by one.
const mostErrors = 20

// readFile reads YAML. Problems with single keys are in errs; err is for a text
// that has no keys at all.
func readFile(name string, raw []byte) (*file, error) {
	f := &file{name: name, texts: map[string]string{}, lines: map[string]int{}}
	var doc, second yaml.Node
	documents := yaml.NewDecoder(bytes.NewReader(raw))
	switch err := documents.Decode(&doc); {
	case err == io.EOF:
		return f, nil // an empty file: all defaults
	case err != nil:
		return nil, &FileError{File: name, Err: err}
	}
	top := content(&doc)
	if top.Kind != yaml.MappingNode {
		return nil, &FileError{name, top.Line, errors.New("want keys and values")}
	}
	switch err := documents.Decode(&second); {
	case err == nil && content(&second).ShortTag() != "!!null": // its keys would do nothing
		return nil, &FileError{name, second.Line, errors.New("want one YAML document, a second begins here")}
	case err != nil && err != io.EOF:
		return nil, &FileError{File: name, Err: err}
	}
	f.walk("", top)
	return f, nil
}

// content is what a document holds.
func content(doc *yaml.Node) *yaml.Node {
	if len(doc.Content) == 0 {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
	}
	return doc.Content[0]
}

// walk reads the keys of a group, and those of groups in it.
func (f *file) walk(prefix string, group *yaml.Node) {
	for i := 0; i+1 < len(group.Content); i += 2 {
		name, value := group.Content[i], group.Content[i+1]
		key := prefix + strings.ToLower(name.Value) // viper's keys know no case
		if first, again := f.lines[key]; again {
			f.wrong(key, name.Line, fmt.Sprintf("it once, it is in line %d already", first), "")
			continue
		}
		f.lines[key] = name.Line
		if value.Kind == yaml.AliasNode && value.Alias.Kind != yaml.MappingNode { // a group may hold itself
			value = value.Alias
		}
		keys := value.Kind == yaml.MappingNode && len(value.Content) > 0
		switch field, example := byKey[key], groups[key]; {
		case field != nil && field.typ == reflect.TypeFor[Mapping]():
			f.mapping(key, name.Line, field, value)
		case field != nil && field.typ.Kind() == reflect.String && changed(value):
			f.wrong(key, name.Line, field.want()+", in quotes: without them YAML reads something else", "") // it may be a password
		case field != nil && value.Kind == yaml.ScalarNode:
			f.texts[key] = scalar(value)
		case field != nil:
			f.wrong(key, name.Line, field.want(), describe(value))
		case keys && (example != "" || prefix == ""):
			f.walk(key+".", value)
		case example != "":
			f.wrong(key, name.Line, "a group of keys, such as "+example, describe(value))
		default:
			f.unknown(key, name.Line)
		}
	}
}

// mapping reads a group of keys that have any names.
func (f *file) mapping(key string, line int, field *field, value *yaml.Node) {
	m := Mapping("")
	switch {
	case value.Kind == yaml.MappingNode:
		if name, text, again := oddEntry(value); again {
			f.wrong(key, name.Line, "each name once", describe(name)+" again")
			return
		} else if name != nil {
			f.wrong(key, name.Line, field.want(), describe(name)+": "+describe(text))
			return
		}
		m = mappingOf(value)
	case value.ShortTag() != "!!null":
		f.wrong(key, line, field.want(), describe(value))
		return
	}
	if f.texts[key] = string(m); m == "" {
		f.texts[key] = field.preset
	}
}

// changed reports whether YAML reads a value without quotes as a number or a bool
// that is written in another way: 0123 is 83 to it. Neither reading of such a
// password, or name of a job, is safe.
func changed(value *yaml.Node) bool {
	if value.Kind != yaml.ScalarNode {
		return false
	}
	var v any
	switch value.ShortTag() {
	case "!!str", "!!null", "!!timestamp":
		return false
	case "!!bool":
		return true
	case "!!float":
		var x float64
		err := value.Decode(&x)
		return err != nil || strconv.FormatFloat(x, 'f', -1, 64) != value.Value
	}
	return value.Decode(&v) != nil || fmt.Sprint(v) != value.Value
}

// scalar is the text of a value as it is written; a null is empty.
func scalar(value *yaml.Node) string {
	if value.ShortTag() == "!!null" {
		return ""
	}
	return value.Value
}

func describe(value *yaml.Node) string {
	switch value.Kind {
	case yaml.ScalarNode:
		return shown(scalar(value))
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias (*)"
	}
	if len(value.Content) == 0 {
		return "nothing"
	}
	return "a group of keys"
}

func (f *file) wrong(key string, line int, want, got string) {
	f.report(func() error { return &FieldError{cut(key), got, want, Source{File: f.name, Line: line}} })
}

func (f *file) unknown(key string, line int) {
	f.report(func() error {
		return &UnknownKeyError{cut(key), nearest(cut(key), Keys()), Source{File: f.name, Line: line}}
	})
}

// report keeps an error, or counts it: a file of another kind may have any
// number of wrong keys.
func (f *file) report(err func() error) {
	if len(f.errs) == mostErrors {
		f.more++
		return
	}
	f.errs = append(f.errs, err())
}

// nearest is the candidate with the least edit distance to s; if s has the last element
// of some candidate, that one. Of two equally near, it is the one in the same section,
// else the one whose whole path is nearer.
func nearest(s string, candidates []string) string {
	lastOf := func(path string) string { return path[strings.LastIndex(path, ".")+1:] }
	distance := func(c string) [3]int {
		whole := levenshtein.ComputeDistance(s, c)
		d := [3]int{min(whole, levenshtein.ComputeDistance(lastOf(s), lastOf(c))+1), 0, whole}
		if !strings.HasPrefix(c, strings.TrimSuffix(s, lastOf(s))) {
			d[1] = 1
		}
		return d
	}
	return slices.MinFunc(slices.Sorted(slices.Values(candidates)), func(a, b string) int {
		x, y := distance(a), distance(b)
		return slices.Compare(x[:], y[:])
	})
}
