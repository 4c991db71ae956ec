package alarm

import (
	"errors"
	"fmt"
	"os"

	"go.yaml.in/yaml/v3"
)

// ReadRules reads rules from a YAML file of names and texts, or from alarms.rules of a
// configuration file.
func ReadRules(file string) (Rules, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return ReadRuleText(text, file)
}

// ReadRuleText reads rules as ReadRules does. source is the origin of the text, for errors.
func ReadRuleText(text []byte, source string) (Rules, error) {
	var config struct {
		Alarms struct{ Rules map[string]string }
	}
	var texts map[string]string
	if yaml.Unmarshal(text, &config) == nil && len(config.Alarms.Rules) > 0 {
		texts = config.Alarms.Rules
	} else if err := yaml.Unmarshal(text, &texts); err != nil {
		return nil, fmt.Errorf("%s: want names with a text each, such as imbalance: class imbalance >= 0.8: %w", source, err)
	}
	rules, err := ParseRules(texts)
	if err == nil && len(rules) == 0 {
		err = errors.New("it has no rules")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", source, err)
	}
	return rules, nil
}
