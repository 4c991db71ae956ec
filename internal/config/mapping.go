package config

import (
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Mapping is a map of names to texts: a group of free keys in a file, {a: b, c: d} in an
// environment variable. Its value is JSON with sorted names; empty for an empty map.
type Mapping string

// Map returns the mapping as a map; nil if empty.
func (m Mapping) Map() map[string]string {
	if m == "" {
		return nil
	}
	var texts map[string]string
	panicOnError(json.Unmarshal([]byte(m), &texts))
	return texts
}

// parseMapping parses a mapping in YAML or JSON, a subset of YAML.
func parseMapping(text string) (Mapping, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return "", err
	}
	switch top := contentOf(&doc); top.Kind {
	case yaml.MappingNode:
		if name, _, _ := oddEntry(top); name != nil {
			return "", fmt.Errorf("%q has no text", name.Value)
		}
		return mappingOf(top), nil
	case yaml.ScalarNode:
		if top.ShortTag() == "!!null" {
			return "", nil
		}
	}
	return "", fmt.Errorf("not a mapping: %q", text)
}

// oddEntry returns the first entry of a group that is not a name with a text, or nil; repeated
// is true for a repeated name.
func oddEntry(group *yaml.Node) (name, value *yaml.Node, repeated bool) {
	names := map[string]bool{}
	for i := 0; i+1 < len(group.Content); i += 2 {
		name, value := group.Content[i], group.Content[i+1]
		repeated = name.Kind == yaml.ScalarNode && names[name.Value]
		if repeated || name.Kind != yaml.ScalarNode || value.Kind != yaml.ScalarNode || value.ShortTag() != "!!str" || value.Value == "" {
			return name, value, repeated
		}
		names[name.Value] = true
	}
	return nil, nil, false
}

// mappingOf converts a group without odd entries.
func mappingOf(group *yaml.Node) Mapping {
	texts := map[string]string{}
	for i := 0; i+1 < len(group.Content); i += 2 {
		texts[group.Content[i].Value] = group.Content[i+1].Value
	}
	if len(texts) == 0 {
		return ""
	}
	text, err := json.Marshal(texts)
	panicOnError(err)
	return Mapping(text)
}
