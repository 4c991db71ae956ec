package config

import (
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Mapping is names and texts: a group of any keys in a file, {a: b, c: d} in an
// environment variable. It is kept as JSON with sorted names, empty for none.
type Mapping string

// Map is the mapping as a map, nil for none.
func (m Mapping) Map() map[string]string {
	if m == "" {
		return nil
	}
	var all map[string]string
	must(json.Unmarshal([]byte(m), &all))
	return all
}

// parseMapping reads a mapping in YAML, of which JSON is a part.
func parseMapping(text string) (Mapping, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return "", err
	}
	switch top := content(&doc); top.Kind {
	case yaml.MappingNode:
		if name, _, _ := oddEntry(top); name != nil {
			return "", fmt.Errorf("%q has no text of its own", name.Value)
		}
		return mappingOf(top), nil
	case yaml.ScalarNode:
		if top.ShortTag() == "!!null" {
			return "", nil
		}
	}
	return "", fmt.Errorf("no mapping: %q", text)
}

// oddEntry is the first entry of a group that is no name with a text of its own,
// nil where there is none; again: its name was there before.
func oddEntry(group *yaml.Node) (name, value *yaml.Node, again bool) {
	seen := map[string]bool{}
	for i := 0; i+1 < len(group.Content); i += 2 {
		name, value := group.Content[i], group.Content[i+1]
		again = name.Kind == yaml.ScalarNode && seen[name.Value]
		if again || name.Kind != yaml.ScalarNode || value.Kind != yaml.ScalarNode || value.ShortTag() != "!!str" || value.Value == "" {
			return name, value, again
		}
		seen[name.Value] = true
	}
	return nil, nil, false
}

// mappingOf is a group without odd entries.
func mappingOf(group *yaml.Node) Mapping {
	all := map[string]string{}
	for i := 0; i+1 < len(group.Content); i += 2 {
		all[group.Content[i].Value] = group.Content[i+1].Value
	}
	if len(all) == 0 {
		return ""
	}
	text, err := json.Marshal(all)
	must(err)
	return Mapping(text)
}
