package cases

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// renamedKeys updates the keys of a user's configuration: field buses once had a separate
// group. Values keep their text, for example 010.
func renamedKeys(t *testing.T, data []byte) []byte {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil || len(doc.Content) == 0 {
		t.Fatalf("configuration of a case: %v", err)
	}
	root := doc.Content[0]
	buses := valueOf(root, "fieldbus")
	if buses == nil {
		return data
	}
	gateway := valueOf(root, "gateway")
	groups := map[string]*yaml.Node{}
	for i := 0; i < len(buses.Content); i += 2 {
		key, value := buses.Content[i], buses.Content[i+1]
		group, name, nested := strings.Cut(key.Value, "_")
		if !nested {
			name = map[string]string{"opcua": "url", "modbus": "servers"}[group]
		}
		if groups[group] == nil {
			groups[group] = &yaml.Node{Kind: yaml.MappingNode}
			gateway.Content = append(gateway.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: group}, groups[group])
		}
		groups[group].Content = append(groups[group].Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, value)
	}
	for i := 0; i < len(root.Content); i += 2 {
		if root.Content[i+1] == buses {
			root.Content = append(root.Content[:i], root.Content[i+2:]...)
			break
		}
	}
	gateway.Style, buses.Style = 0, 0
	out, err := yaml.Marshal(&doc)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func valueOf(m *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return m.Content[i+1]
		}
	}
	return nil
}
