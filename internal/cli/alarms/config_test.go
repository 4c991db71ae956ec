package alarms_test

import (
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/config"
)

// A configuration accepts a rule of every kind.
func TestKindsInConfiguration(t *testing.T) {
	examples := map[string]string{
		"class": "class a >= 0.8", "flag": "flag flat", "novel": "novel 0.01", "value": "value > 80", "low": "low > 80", "high": "high < 10",
		"input": "input 2 level < -3", "drift": "drift score", "silent": "silent 10m",
	}
	for _, kind := range alarm.Kinds {
		text, kinds := examples[kind]
		if !kinds {
			t.Errorf("no example of kind %q here", kind)
			continue
		}
		c, err := config.Load("c.yaml", []byte("alarms:\n  rules:\n    r: "+text+"\n"), nil, nil)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if rules, err := alarm.ParseRules(c.Alarms.Rules.Map()); err != nil || len(rules) != 1 || rules[0].Kind != kind {
			t.Errorf("%q: %v, %v", text, rules, err)
		}
	}
}
