package config

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/eusn-stream/eusn-stream/internal/cli"
)

// keySources knows where each key's value comes from, so that errors can say
// it: a flag, the environment, or a line of the file.
type keySources struct {
	file  string
	flags *pflag.FlagSet
	bind  map[string]string // flag to key
	lines map[string]int
}

// readKeys parses a YAML file for its keys alone and reports every one that is
// not in known, with its line and the known key most like it. viper itself
// ignores what it does not know, which turns a typing error into a default.
// err is for a file that cannot be read on.
func (k *keySources) readKeys(raw []byte, known []string) (errs []error, err error) {
	k.lines = map[string]int{}
	var doc yaml.Node
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("config: %s: %w", k.file, err)
	}
	if len(doc.Content) == 0 {
		return nil, nil // an empty file: all defaults
	}
	top := doc.Content[0]
	if top.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("config: %s:%d: want keys and values", k.file, top.Line)
	}
	k.walk("", top, func(key string, line int) {
		switch section := nearest(key+".", known); {
		case slices.Contains(known, key):
		case strings.HasPrefix(section, key+"."):
			errs = append(errs, fmt.Errorf("config: %s:%d: %s is a group of keys, such as %s", k.file, line, key, section))
		default:
			errs = append(errs, fmt.Errorf("config: %s:%d: unknown key %q, nearest is %q", k.file, line, key, nearest(key, known)))
		}
	})
	return errs, nil
}

// walk visits every leaf under a mapping.
func (k *keySources) walk(prefix string, node *yaml.Node, leaf func(key string, line int)) {
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, value := node.Content[i], node.Content[i+1]
		key := prefix + strings.ToLower(name.Value) // viper's keys know no case
		k.lines[key] = name.Line
		if value.Kind == yaml.MappingNode && len(value.Content) > 0 {
			k.walk(key+".", value, leaf)
		} else {
			leaf(key, name.Line)
		}
	}
}

// locate says with each key's error where its value comes from.
func (k *keySources) locate(err error) error {
	if err == nil {
		return nil
	}
	var out []error
	for _, e := range parts(err) {
		var ke *keyError
		if errors.As(e, &ke) {
			e = fmt.Errorf("config: %skey %w", k.source(ke.key), e)
		} else {
			e = fmt.Errorf("config: %w", e)
		}
		out = append(out, e)
	}
	return errors.Join(out...)
}

func (k *keySources) source(key string) string {
	for flag, bound := range k.bind {
		if bound == key && k.flags.Changed(flag) {
			return "--" + flag + ": "
		}
	}
	env := cli.EnvPrefix + "_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
	if os.Getenv(env) != "" {
		return env + ": "
	}
	if line := k.lines[key]; line > 0 {
		return fmt.Sprintf("%s:%d: ", k.file, line)
	}
	return ""
}

// typeError is how viper's decoder words a value of the wrong type.
var typeError = regexp.MustCompile(`(?m)^'([a-z_.]+)' (.+)$`)

// typeErrors takes the decoder's error apart by key.
func typeErrors(err error) []error {
	var errs []error
	for _, m := range typeError.FindAllStringSubmatch(err.Error(), -1) {
		errs = append(errs, &keyError{m[1], m[2]})
	}
	if len(errs) == 0 {
		return []error{err}
	}
	return errs
}

// parts takes a joined error apart.
func parts(err error) []error {
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		return j.Unwrap()
	}
	return []error{err}
}

// nearest is the candidate with the least edit distance to s; where s names a
// last element that some candidate has, that one.
func nearest(s string, candidates []string) string {
	last := s[strings.LastIndex(s, ".")+1:]
	best, least := "", int(^uint(0)>>1)
	for _, c := range slices.Sorted(slices.Values(candidates)) {
		d := 2 * min(levenshtein.ComputeDistance(s, c), levenshtein.ComputeDistance(last, c[strings.LastIndex(c, ".")+1:])+1)
		if !strings.HasPrefix(c, s[:strings.LastIndex(s, ".")+1]) {
			d++ // of two equally near, the one in the same section
		}
		if d < least {
			best, least = c, d
		}
	}
	return best
}
