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

// DefaultYAML is a file with every key, its default and what it does. It is
// generated.
//
//go:embed default.yaml
var DefaultYAML []byte

// Schema is the JSON Schema, draft 2020-12, of a configuration file. It is
// generated.
//
//go:embed schema.json
var Schema []byte

// ShowDefaults lets help say what these flags are where nothing sets their
// keys. The flags themselves stay unset.
func ShowDefaults(flags *pflag.FlagSet, names []string) {
	for _, name := range names {
		if f := flags.Lookup(name); f != nil { // not one of all commands'
			f.DefValue = byFlag[name].preset
		}
	}
}

// Load gives each key its value: from a flag of those names, else from the
// environment, else from raw, the YAML file that is called name, else its
// default. flags may be nil where there are no names.
//
// The error joins everything that is wrong: FieldError and UnknownKeyError where
// a key is known to be at fault, else FileError. Config then still has every value that
// could be read, and defaults for those that could not.
func Load(name string, raw []byte, flags *pflag.FlagSet, names []string) (Config, error) {
	f, err := readFile(name, raw)
	if err != nil {
		return Config{}, err
	}
	l := loader{v: viper.New(), file: f, flags: flags, names: names, wrong: map[string]bool{}}
	l.find()
	l.decode()
	for _, err := range f.errs {
		var fe *FieldError
		if errors.As(err, &fe) {
			l.wrong[fe.Key] = true
		}
	}
	l.check()
	for i := range fields {
		if f := &fields[i]; l.file.texts[f.key] != "" && l.file.texts[f.key] != f.preset {
			l.c.InFile = append(l.c.InFile, f.key)
		}
	}
	errs := append(f.errs, l.errs...)
	if f.more > 0 {
		errs = append(errs, &FileError{File: name, Err: fmt.Errorf("%d problems more", f.more)})
	}
	return l.c, errors.Join(errs...)
}

// loader makes a Config of its sources.
type loader struct {
	v     *viper.Viper
	file  *file
	flags *pflag.FlagSet
	names []string // of flags
	c     Config
	errs  []error
	wrong map[string]bool // keys whose error is known
}

// find tells viper where values are. It finds text, or a flag's value.
func (l *loader) find() {
	for _, f := range fields {
		l.v.SetDefault(f.key, f.preset)
		must(l.v.BindEnv(f.key, f.env))
	}
	must(l.v.MergeConfigMap(nested(l.file.texts)))
	for _, name := range l.names {
		must(l.v.BindPFlag(byFlag[name].key, l.flags.Lookup(name)))
	}
}

// nested is the tree of groups of keys that viper takes.
func nested(texts map[string]string) map[string]any {
	m := map[string]any{}
	for key, text := range texts {
		path, at := strings.Split(key, "."), m
		for _, group := range path[:len(path)-1] {
			if at[group] == nil {
				at[group] = map[string]any{}
			}
			at = at[group].(map[string]any)
		}
		at[path[len(path)-1]] = text
	}
	return m
}

func must(err error) {
	if err != nil {
		panic("BUG: " + err.Error())
	}
}

// decode reads every value by its field's type.
func (l *loader) decode() {
	err := l.v.Unmarshal(&l.c, viper.DecodeHook(mapstructure.DecodeHookFuncType(decodeText)))
	for _, key := range failedKeys(err) {
		f := byKey[key]
		v, perr := parse(f.preset, f.typ)
		must(perr)
		l.field(f).Set(reflect.ValueOf(v))
		if text := l.v.GetString(key); text != "" || !l.field(f).IsZero() {
			want := f.want()
			if oddNumber.MatchString(text) && f.typ.Kind() != reflect.Bool && f.typ.Kind() != reflect.String {
				want += ", without leading zeros and underscores (10, not 010)"
			}
			l.add(want, shown(text), key)
		} // else nothing is written, and that is the default
	}
}

// decodeText reads text by the type it is for. Everything else passes.
func decodeText(from, to reflect.Type, value any) (any, error) {
	if text, ok := value.(string); ok && from.Kind() == reflect.String {
		return parse(text, to)
	}
	return value, nil
}

// failedKeys are the keys that the decoder's error is about.
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

func (l *loader) field(f *field) reflect.Value {
	return reflect.ValueOf(&l.c).Elem().FieldByIndex(f.index)
}

// add reports that the keys have no value as wanted. The first one is named, and
// where it has no source of its own, the first source of the others.
func (l *loader) add(want, got string, keys ...string) {
	e := &FieldError{Key: keys[0], Value: got, Want: want}
	for _, k := range keys {
		l.wrong[k] = true
		if e.Source == (Source{}) {
			e.Source = l.source(k)
		}
	}
	l.errs = append(l.errs, e)
}

// source says where the value of a key, or of a group of keys, comes from.
func (l *loader) source(key string) Source {
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
