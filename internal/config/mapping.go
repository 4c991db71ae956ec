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
		return mappingOf(top)
	case yaml.ScalarNode:
		if top.ShortTag() == "!!null" {
			return "", nil
		}
	}
	return "", fmt.Errorf("no mapping: %q", text)
}

func mappingOf(group *yaml.Node) (Mapping, error) {
	all := map[string]string{}
	for i := 0; i+1 < len(group.Content); i += 2 {
		name, value := group.Content[i], group.Content[i+1]
		if _, again := all[name.Value]; again || name.Kind != yaml.ScalarNode || value.Kind != yaml.ScalarNode || value.ShortTag() != "!!str" || value.Value == "" {
			return "", fmt.Errorf("%q has no text of its own", name.Value)
		}
		all[name.Value] = value.Value
	}
	if len(all) == 0 {
		return "", nil
	}
	text, err := json.Marshal(all)
	return Mapping(text), err
}
