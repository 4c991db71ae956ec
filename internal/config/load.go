package config

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

// DefaultYAML is a generated file with every key, its default and its description.
//
//go:embed default.yaml
var DefaultYAML []byte

// Schema is the JSON Schema, draft 2020-12, of a configuration file. It is
// generated.
//
//go:embed schema.json
var Schema []byte

// ShowDefaults sets the displayed defaults of flags in the help, unless the flag's text has a
// default. The flags stay unset.
func ShowDefaults(flags *pflag.FlagSet, names []string) {
	for _, name := range names {
		if f := flags.Lookup(name); f != nil && !strings.Contains(f.Usage, "(default") { // absent if the flag is not common to all commands
			f.DefValue = byFlag[name].preset
		}
	}
}

// Load sets each key: from a flag in names, else from the environment, else from raw, the YAML
// file with the given name, else from its default. The argument flags may be nil without names.
//
// The error joins all problems: FieldError and UnknownKeyError for a known key, else FileError.
// Config then has all valid values, and defaults for the rest.
func Load(name string, raw []byte, flags *pflag.FlagSet, names []string) (Config, error) {
	f, err := readFile(name, raw)
	if err != nil {
		return Config{}, err
	}
	l := loader{viper: viper.New(), file: f, flags: flags, names: names, failed: map[string]bool{}}
	l.bindSources()
	l.decodeValues()
	for _, err := range f.errs {
		var fe *FieldError
		if errors.As(err, &fe) {
			l.failed[fe.Key] = true
		}
	}
	l.checkValues()
	l.config.File = name
	l.config.set = map[string]bool{}
	for i := range fields {
		f := &fields[i]
		if (l.sourceOf(f.key) != Source{}) {
			l.config.set[f.key] = true
		}
		if l.file.texts[f.key] != "" && l.file.texts[f.key] != f.preset {
			l.config.InFile = append(l.config.InFile, f.key)
		}
	}
	errs := append(f.errs, l.errs...)
	if f.unreported > 0 {
		errs = append(errs, &FileError{File: name, Err: fmt.Errorf("%d more problems", f.unreported)})
	}
	return l.config, errors.Join(errs...)
}

// loader builds a Config from its sources.
type loader struct {
	viper  *viper.Viper
	file   *file
	flags  *pflag.FlagSet
	names  []string // names of flags
	config Config
	errs   []error
	failed map[string]bool // keys with a known error
}

// bindSources registers the sources of the values in viper.
func (l *loader) bindSources() {
	for _, f := range fields {
		l.viper.SetDefault(f.key, f.preset)
		panicOnError(l.viper.BindEnv(f.key, f.env))
	}
	panicOnError(l.viper.MergeConfigMap(nested(l.file.texts)))
	for _, name := range l.names {
		panicOnError(l.viper.BindPFlag(byFlag[name].key, l.flags.Lookup(name)))
	}
}

// nested returns the tree of groups for viper.
func nested(texts map[string]string) map[string]any {
	m := map[string]any{}
	for key, text := range texts {
		path, node := strings.Split(key, "."), m
		for _, group := range path[:len(path)-1] {
			if node[group] == nil {
				node[group] = map[string]any{}
			}
			node = node[group].(map[string]any)
		}
		node[path[len(path)-1]] = text
	}
	return m
}

func panicOnError(err error) {
	if err != nil {
		panic("BUG: " + err.Error())
	}
}

// decodeValues parses every value by its field's type.
func (l *loader) decodeValues() {
	err := l.viper.Unmarshal(&l.config, viper.DecodeHook(mapstructure.DecodeHookFuncType(decodeText)))
	for _, key := range failedKeys(err) {
		f := byKey[key]
		v, perr := parseText(f.preset, f.typ)
		panicOnError(perr)
		l.fieldValue(f).Set(reflect.ValueOf(v))
		if text := l.viper.GetString(key); text != "" || !l.fieldValue(f).IsZero() {
			want := f.want()
			if oddNumber.MatchString(text) && f.typ.Kind() != reflect.Bool && f.typ.Kind() != reflect.String {
				want += ", without leading zeros and underscores (10, not 010)"
			}
			l.addError(want, shown(text), key)
		} // otherwise the text is empty, and the default is empty, too
	}
}

// decodeText parses text by its target type. Other values pass unchanged.
func decodeText(source, target reflect.Type, value any) (any, error) {
	if text, ok := value.(string); ok && source.Kind() == reflect.String {
		return parseText(text, target)
	}
	return value, nil
}

// failedKeys lists the keys of the decoder's error.
func failedKeys(err error) []string {
	switch e := err.(type) {
	case nil:
		return nil
	case *mapstructure.DecodeError:
		return []string{e.Name()}
	case interface{ Unwrap() []error }:
		var keys []string
		for _, part := range e.Unwrap() {
			keys = append(keys, failedKeys(part)...)
		}
		return keys
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return failedKeys(inner)
		}
	}
	panic("BUG: the decoder's error names no key: " + err.Error())
}

func (l *loader) fieldValue(f *field) reflect.Value {
	return reflect.ValueOf(&l.config).Elem().FieldByIndex(f.index)
}

// addError reports invalid keys. The error names the first key, and has the first known source
// of the keys.
func (l *loader) addError(want, got string, keys ...string) {
	e := &FieldError{Key: keys[0], Value: got, Want: want}
	for _, k := range keys {
		l.failed[k] = true
		if e.Source == (Source{}) {
			e.Source = l.sourceOf(k)
		}
	}
	l.errs = append(l.errs, e)
}

// sourceOf returns the source of a key, or of a group of keys.
func (l *loader) sourceOf(key string) Source {
	if f := byKey[key]; f != nil {
		for _, name := range l.names {
			if name == f.flag && l.flags.Changed(name) {
				return Source{Flag: name}
			}
		}
		if os.Getenv(f.env) != "" {
			return Source{Env: f.env}
		}
	}
	if line := l.file.lines[key]; line > 0 {
		return Source{File: l.file.name, Line: line}
	}
	return Source{}
}
