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

// file is a parsed YAML file: the text of each key, and its line.
type file struct {
	name       string
	texts      map[string]string
	lines      map[string]int
	errs       []error
	unreported int // number of errors beyond maxErrors
}

// maxErrors is the maximum number of reported problems of a file.
const maxErrors = 20

// readFile parses YAML. Problems with single keys are in errs; err is for a text without any
// keys.
func readFile(name string, raw []byte) (*file, error) {
	f := &file{name: name, texts: map[string]string{}, lines: map[string]int{}}
	var doc, second yaml.Node
	documents := yaml.NewDecoder(bytes.NewReader(raw))
	switch err := documents.Decode(&doc); {
	case err == io.EOF:
		return f, nil // an empty file: all defaults
	case err != nil:
		return nil, syntaxError(name, err)
	}
	top := contentOf(&doc)
	if top.Kind != yaml.MappingNode {
		return nil, &FileError{name, top.Line, errors.New("want keys and values")}
	}
	switch err := documents.Decode(&second); {
	case err == nil && contentOf(&second).ShortTag() != "!!null": // the keys of a second document would have no effect
		return nil, &FileError{name, second.Line, errors.New("want one YAML document, but a second document starts here")}
	case err != nil && err != io.EOF:
		return nil, syntaxError(name, err)
	}
	f.readGroup("", top)
	return f, nil
}

// syntaxError is an error of the YAML parser, which names the line in its text.
func syntaxError(name string, err error) error {
	e := &FileError{File: name}
	reason := strings.TrimPrefix(err.Error(), "yaml: ")
	if _, scanErr := fmt.Sscanf(reason, "line %d:", &e.Line); scanErr == nil {
		_, reason, _ = strings.Cut(reason, ": ")
	}
	e.Err = fmt.Errorf("not valid YAML: %s", reason)
	return e
}

// contentOf returns the content of a document.
func contentOf(doc *yaml.Node) *yaml.Node {
	if len(doc.Content) == 0 {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
	}
	return doc.Content[0]
}

// readGroup reads the keys of a group and its subgroups.
func (f *file) readGroup(prefix string, group *yaml.Node) {
	for i := 0; i+1 < len(group.Content); i += 2 {
		name, value := group.Content[i], group.Content[i+1]
		key := prefix + strings.ToLower(name.Value) // keys of viper are case-insensitive
		if first, repeated := f.lines[key]; repeated {
			f.addWrong(key, name.Line, fmt.Sprintf("the key once, it is already in line %d", first), "")
			continue
		}
		f.lines[key] = name.Line
		if value.Kind == yaml.AliasNode && value.Alias.Kind != yaml.MappingNode { // an alias of a group may contain itself
			value = value.Alias
		}
		keys := value.Kind == yaml.MappingNode && len(value.Content) > 0
		switch field, example := byKey[key], groups[key]; {
		case field != nil && field.typ == reflect.TypeFor[Mapping]():
			f.readMapping(key, name.Line, field, value)
		case field != nil && field.typ.Kind() == reflect.String && isChanged(value):
			f.addWrong(key, name.Line, field.want()+", in quotes: without them YAML reads something else", "") // the value may be a password
		case field != nil && value.Kind == yaml.ScalarNode:
			f.texts[key] = scalarText(value)
		case field != nil:
			f.addWrong(key, name.Line, field.want(), describeNode(value))
		case keys && (example != "" || prefix == ""):
			f.readGroup(key+".", value)
		case example != "":
			f.addWrong(key, name.Line, "a group of keys, such as "+example, describeNode(value))
		default:
			f.addUnknown(key, name.Line)
		}
	}
}

// readMapping reads a group of keys with free names.
func (f *file) readMapping(key string, line int, field *field, value *yaml.Node) {
	m := Mapping("")
	switch {
	case value.Kind == yaml.MappingNode:
		if name, text, repeated := oddEntry(value); repeated {
			f.addWrong(key, name.Line, "each name once", describeNode(name)+" again")
			return
		} else if name != nil {
			f.addWrong(key, name.Line, field.want(), describeNode(name)+": "+describeNode(text))
			return
		}
		m = mappingOf(value)
	case value.ShortTag() != "!!null":
		f.addWrong(key, line, field.want(), describeNode(value))
		return
	}
	if f.texts[key] = string(m); m == "" {
		f.texts[key] = field.preset
	}
}

// isChanged reports whether YAML reads an unquoted value as a number or bool with another
// spelling: 0123 becomes 83. For such a password, or name of a job, neither reading is safe.
func isChanged(value *yaml.Node) bool {
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

// scalarText returns the text of a value; empty for a null.
func scalarText(value *yaml.Node) string {
	if value.ShortTag() == "!!null" {
		return ""
	}
	return value.Value
}

func describeNode(value *yaml.Node) string {
	switch value.Kind {
	case yaml.ScalarNode:
		return shown(scalarText(value))
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

func (f *file) addWrong(key string, line int, want, got string) {
	f.addError(func() error { return &FieldError{cut(key), got, want, Source{File: f.name, Line: line}} })
}

func (f *file) addUnknown(key string, line int) {
	f.addError(func() error {
		return &UnknownKeyError{cut(key), nearest(cut(key), Keys()), Source{File: f.name, Line: line}}
	})
}

// addError stores an error, or counts it: a file of another kind may have any number of wrong
// keys.
func (f *file) addError(err func() error) {
	if len(f.errs) == maxErrors {
		f.unreported++
		return
	}
	f.errs = append(f.errs, err())
}

// nearest returns the candidate with the smallest edit distance to s; an equal last element
// counts as near. Of two equally near candidates, it prefers the same section, then the nearer
// whole path.
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
