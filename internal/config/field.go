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

// field is the definition of one key in Config.
type field struct {
	key    string // with its groups, such as stage.rows
	env    string // environment variable of the key
	flag   string // flag of the key in commands that have it; empty: no flag
	preset string // default as text in a file
	enum   []string
	typ    reflect.Type

	minimum, maximum, not string // texts of the tags; empty: no limit
	min, max, refused     *int64
	pattern               *regexp.Regexp
	minLength             int
	wantText, exclusive   string
	index                 []int  // in Config
	goName                string // type and field, such as Stage.Rows
}

// envPrefix is the prefix of the environment variables of keys.
const envPrefix = "EUSN_"

var (
	fields = readFields(nil, "", nil, reflect.TypeFor[Config]())
	byKey  = indexFields(func(f *field) string { return f.key })
	byFlag = indexFields(func(f *field) string { return f.flag })
	groups = groupsOf(fields)
)

// Keys returns the names of all keys, with their groups, in the order of the file.
func Keys() []string {
	var keys []string
	for _, f := range fields {
		keys = append(keys, f.key)
	}
	return keys
}

// Enum returns the permitted values of a key.
func Enum(key string) []string { return slices.Clone(byKey[key].enum) }

func indexFields(name func(*field) string) map[string]*field {
	m := map[string]*field{}
	for i := range fields {
		if n := name(&fields[i]); n != "" {
			m[n] = &fields[i]
		}
	}
	return m
}

// groupsOf maps each group of keys to an example of its keys.
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

// group returns the path of the key's group; empty at the top.
func (f *field) group() string { return f.key[:max(0, strings.LastIndex(f.key, "."))] }

func readFields(list []field, prefix string, position []int, typ reflect.Type) []field {
	for i := range typ.NumField() {
		f := typ.Field(i)
		if f.Tag.Get("mapstructure") == "-" {
			continue
		}
		key, here := prefix+f.Tag.Get("mapstructure"), append(slices.Clone(position), i)
		if f.Type.Kind() == reflect.Struct {
			list = readFields(list, key+".", here, f.Type)
			continue
		}
		list = append(list, readField(key, here, typ.Name()+"."+f.Name, f))
	}
	return list
}

func readField(key string, position []int, goName string, f reflect.StructField) field {
	tag := f.Tag.Get
	result := field{
		key: key, env: envPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_")), flag: tag("flag"),
		preset: tag("default"), typ: f.Type, minimum: tag("minimum"), maximum: tag("maximum"), not: tag("not"),
		wantText: tag("want"), exclusive: tag("alone"), index: position, goName: goName,
	}
	result.min, result.max, result.refused = result.bound(result.minimum), result.bound(result.maximum), result.bound(result.not)
	if s := tag("enum"); s != "" {
		result.enum = strings.Split(s, ",")
	}
	pattern := tag("pattern")
	if s := tag("form"); s != "" {
		form := formOf(s)
		pattern, result.wantText = form.pattern, cmp.Or(result.wantText, form.want)
	}
	if pattern != "" {
		result.pattern = regexp.MustCompile(pattern)
	}
	if n := result.bound(tag("minLength")); n != nil {
		result.minLength = int(*n)
	}
	return result
}

// bound parses a number in a tag; nil without a number.
func (f *field) bound(text string) *int64 {
	if text == "" {
		return nil
	}
	typ := f.typ
	if typ.Kind() == reflect.String {
		typ = reflect.TypeFor[int]() // a length
	}
	v, err := parseText(text, typ)
	if err != nil {
		panic("BUG: tag of " + f.key + ": " + err.Error())
	}
	n := reflect.ValueOf(v).Int()
	return &n
}

// parseText parses a text by type. An empty text is valid only for a string.
func parseText(text string, typ reflect.Type) (any, error) {
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

// oddNumber matches a number with two meanings: with a leading zero it is octal in some
// languages and decimal in others (0x is hexadecimal everywhere), and underscores are invalid
// in JSON.
var oddNumber = regexp.MustCompile(`^[+-]?0(?:[0-9oO_]|[bB][01])|^[+-]?[0-9][0-9a-fA-FxX.]*_`)

// OddNumber reports whether a text is a number that keys and flags refuse.
func OddNumber(text string) bool { return oddNumber.MatchString(text) }

// errOdd is the error for an odd number.
var errOdd = errors.New("a number without leading zeros and underscores, such as 10")

// parseWhole parses a whole number: as in Go, or with an exponent or a fraction of zeros, which
// YAML and JSON Schema also accept as whole.
func parseWhole(s string, bits int) (int64, error) {
	if oddNumber.MatchString(s) {
		return 0, errOdd
	}
	n, err := strconv.ParseInt(s, 0, bits)
	if err == nil {
		return n, nil
	}
	// Above 2^53 not every whole number is a float.
	if f, ferr := strconv.ParseFloat(s, 64); ferr == nil && f == math.Trunc(f) && math.Abs(f) < math.Ldexp(1, min(bits-1, 53)) {
		return int64(f), nil
	}
	return 0, err
}

// accepts reports whether the value v of the field's type is valid for the key.
func (f *field) accepts(v reflect.Value) bool {
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

// oddNames lists the names of a mapping with an invalid text, sorted.
func (f *field) oddNames(texts map[string]string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(texts)), func(name string) bool { return f.pattern.MatchString(texts[name]) })
}

// describeInvalid formats an invalid value; for a mapping, its first invalid entry.
func (f *field) describeInvalid(v reflect.Value, text string) string {
	m, ok := v.Interface().(Mapping)
	if !ok {
		return shown(text)
	}
	texts := m.Map()
	name := f.oddNames(texts)[0]
	return shown(name) + ": " + shown(texts[name])
}

// want describes the valid values of the key in words.
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

// bounds describes the valid numbers in words; empty: all numbers.
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

// orList formats words as "a, b or c".
func orList(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return fmt.Sprintf("%s or %s", strings.Join(words[:last], ", "), words[last])
}
