package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// field is what Config says of one key.
type field struct {
	key    string // with its groups, such as stage.rows
	env    string // the environment variable that sets it
	flag   string // the flag that sets it in commands that have it; empty: none has
	preset string // as it is written in a file
	enum   []string
	typ    reflect.Type

	minimum, maximum, not string // as written; empty: none
	min, max, refused     *int64
	pattern               *regexp.Regexp
	minLength             int
	wantText, alone       string
	index                 []int  // in Config
	goName                string // type and field, such as Stage.Rows
}

// envPrefix begins the name of every environment variable that sets a key.
const envPrefix = "EUSN_"

var (
	fields = readFields(nil, "", nil, reflect.TypeFor[Config]())
	byKey  = index(func(f *field) string { return f.key })
	byFlag = index(func(f *field) string { return f.flag })
	groups = groupsOf(fields)
)

// Keys are the names of all keys, with their groups, in the order of the file.
func Keys() []string {
	var keys []string
	for _, f := range fields {
		keys = append(keys, f.key)
	}
	return keys
}

// Enum are the values that the key of that name may have.
func Enum(key string) []string { return slices.Clone(byKey[key].enum) }

func index(name func(*field) string) map[string]*field {
	m := map[string]*field{}
	for i := range fields {
		if n := name(&fields[i]); n != "" {
			m[n] = &fields[i]
		}
	}
	return m
}

// groupsOf gives each group of keys, by its path, an example of its keys.
func groupsOf(fields []field) map[string]string {
	m := map[string]string{}
	for _, f := range fields {
		for i := range f.key {
			if group := f.key[:i]; f.key[i] == '.' && m[group] == "" {
				m[group] = f.key
			}
		}
	}
	return m
}

// group is the path of the group that holds the key; empty at the top.
func (f *field) group() string { return f.key[:max(0, strings.LastIndex(f.key, "."))] }

func readFields(to []field, prefix string, at []int, typ reflect.Type) []field {
	for i := range typ.NumField() {
		f := typ.Field(i)
		if f.Tag.Get("mapstructure") == "-" {
			continue
		}
		key, here := prefix+f.Tag.Get("mapstructure"), append(slices.Clone(at), i)
		if f.Type.Kind() == reflect.Struct {
			to = readFields(to, key+".", here, f.Type)
			continue
		}
		to = append(to, readField(key, here, typ.Name()+"."+f.Name, f))
	}
	return to
}

func readField(key string, at []int, goName string, f reflect.StructField) field {
	tag := f.Tag.Get
	to := field{
		key: key, env: envPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_")), flag: tag("flag"),
		preset: tag("default"), typ: f.Type, minimum: tag("minimum"), maximum: tag("maximum"), not: tag("not"),
		wantText: tag("want"), alone: tag("alone"), index: at, goName: goName,
	}
	to.min, to.max, to.refused = to.bound(to.minimum), to.bound(to.maximum), to.bound(to.not)
	if s := tag("enum"); s != "" {
		to.enum = strings.Split(s, ",")
	}
	pattern := tag("pattern")
	if s := tag("form"); s != "" {
		form := formOf(s)
		pattern, to.wantText = form.pattern, cmp.Or(to.wantText, form.want)
	}
	if pattern != "" {
		to.pattern = regexp.MustCompile(pattern)
	}
	if n := to.bound(tag("minLength")); n != nil {
		to.minLength = int(*n)
	}
	return to
}

// bound is a number in a tag, nil without one.
func (f *field) bound(text string) *int64 {
	if text == "" {
		return nil
	}
	typ := f.typ
	if typ.Kind() == reflect.String {
		typ = reflect.TypeFor[int]() // a length
	}
	v, err := parse(text, typ)
	if err != nil {
		panic("BUG: tag of " + f.key + ": " + err.Error())
	}
	n := reflect.ValueOf(v).Int()
	return &n
}

// parse reads a text as a value of that type. An empty text is no value of
// anything but a string.
func parse(text string, typ reflect.Type) (any, error) {
	switch typ {
	case reflect.TypeFor[time.Duration]():
		if oddNumber.MatchString(text) {
			return time.Duration(0), errOdd
		}
		return time.ParseDuration(text)
	case reflect.TypeFor[Bytes]():
		return ParseBytes(text)
	case reflect.TypeFor[Mapping]():
		return parseMapping(text)
	}
	switch typ.Kind() {
	case reflect.Bool:
		return strconv.ParseBool(text)
	case reflect.Int, reflect.Int64:
		n, err := parseWhole(text, typ.Bits())
		return reflect.ValueOf(n).Convert(typ).Interface(), err
	}
	return text, nil
}

// oddNumber is a number that has two meanings: with a leading zero it is octal in some
// languages and decimal in others (0x is hexadecimal everywhere), and an underscore is
// none in JSON.
var oddNumber = regexp.MustCompile(`^[+-]?0(?:[0-9oO_]|[bB][01])|^[+-]?[0-9][0-9a-fA-FxX.]*_`)

// OddNumber reports whether a text is a number that no key and no flag takes.
func OddNumber(text string) bool { return oddNumber.MatchString(text) }

// errOdd is about such a number.
var errOdd = errors.New("a number without leading zeros and underscores, such as 10")

// parseWhole reads a whole number: as Go writes one, or with an exponent or a
// fraction of zeros, which YAML and JSON Schema take for whole as well.
func parseWhole(s string, bits int) (int64, error) {
	if oddNumber.MatchString(s) {
		return 0, errOdd
	}
	n, err := strconv.ParseInt(s, 0, bits)
	if err == nil {
		return n, nil
	}
	// Beyond 2^53 not every whole number is a float.
	if f, ferr := strconv.ParseFloat(s, 64); ferr == nil && f == math.Trunc(f) && math.Abs(f) < math.Ldexp(1, min(bits-1, 53)) {
		return int64(f), nil
	}
	return 0, err
}

// holds reports whether v, of the field's type, is a value that the key may
// have.
func (f *field) holds(v reflect.Value) bool {
	if m, ok := v.Interface().(Mapping); ok {
		return len(f.oddNames(m.Map())) == 0
	}
	switch v.Kind() {
	case reflect.String:
		s := v.String()
		return len(s) >= f.minLength && (f.pattern == nil || f.pattern.MatchString(s)) && (f.enum == nil || slices.Contains(f.enum, s))
	case reflect.Bool:
		return true
	}
	n := v.Int()
	return (f.min == nil || n >= *f.min) && (f.max == nil || n <= *f.max) && (f.refused == nil || n != *f.refused)
}

// oddNames are those of a mapping whose texts the key may not have, sorted.
func (f *field) oddNames(all map[string]string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(name string) bool { return f.pattern.MatchString(all[name]) })
}

// odd shows a value that the key may not have: of a mapping, the first odd entry.
func (f *field) odd(v reflect.Value, text string) string {
	m, ok := v.Interface().(Mapping)
	if !ok {
		return shown(text)
	}
	all := m.Map()
	name := f.oddNames(all)[0]
	return shown(name) + ": " + shown(all[name])
}

// want says in words what the key wants.
func (f *field) want() string {
	kind := ""
	switch {
	case f.wantText != "":
		return f.wantText
	case f.enum != nil:
		return orList(f.enum)
	case f.typ == reflect.TypeFor[time.Duration]():
		kind = "a duration with its unit, such as 5ms or 10s"
	case f.typ == reflect.TypeFor[Bytes]():
		kind = "a number of bytes, or a size with its unit, such as 8MiB"
	case f.typ.Kind() == reflect.Bool:
		return "true or false"
	case f.typ.Kind() == reflect.String:
		return "a text"
	default:
		kind = "a whole number"
	}
	if r := f.bounds(); r != "" {
		kind += ", " + r
	}
	return kind
}

// bounds says in words which numbers the key may have; empty: all.
func (f *field) bounds() string {
	r := ""
	switch {
	case f.min != nil && f.max != nil:
		r = f.minimum + " to " + f.maximum
	case f.max != nil:
		r = "at most " + f.maximum
	case f.min != nil && *f.min == 1:
		return "more than 0"
	case f.min != nil:
		r = "at least " + f.minimum
	}
	if f.refused == nil {
		return r
	}
	return strings.TrimPrefix(r+", not "+f.not, ", ")
}

// orList is a, b or c.
func orList(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return fmt.Sprintf("%s or %s", strings.Join(words[:last], ", "), words[last])
}
