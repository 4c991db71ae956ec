package alarm

import (
	"errors"
	"fmt"
	"os"

	"go.yaml.in/yaml/v3"
)

// ReadRules reads rules from a YAML file of names and texts.
func ReadRules(file string) (Rules, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var texts map[string]string
	if err := yaml.Unmarshal(text, &texts); err != nil {
		return nil, fmt.Errorf("%s: want names with a text each, such as imbalance: class imbalance >= 0.8: %w", file, err)
	}
	rules, err := ParseRules(texts)
	if err == nil && len(rules) == 0 {
		err = errors.New("it has no rules")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return rules, nil
}
