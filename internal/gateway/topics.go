package gateway

import (
	"fmt"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Topics selects topics with a stream, and makes the stream's key. The key consists of
// the levels matched by the wildcards of the first matching pattern, joined by "/". So
// different topics of a pattern have different keys: a level cannot contain "/".
type Topics struct{ patterns []pattern }

type pattern struct {
	text   string
	levels []string
}

// ParseTopics reads patterns, separated by commas: levels separated by "/", with "+"
// for any level and "#" at the end for all further levels, as in MQTT.
func ParseTopics(list string) (*Topics, error) {
	t := &Topics{}
	for text := range strings.SplitSeq(list, ",") {
		p := pattern{strings.TrimSpace(text), strings.Split(strings.TrimSpace(text), "/")}
		wild := 0
		for i, l := range p.levels {
			switch {
			case l == "+", l == "#" && i == len(p.levels)-1:
				wild++
			case strings.ContainsAny(l, "+#"):
				return nil, fmt.Errorf(`topics: %q: want + as a whole level, and # as the last one`, p.text)
			}
		}
		if wild == 0 {
			return nil, fmt.Errorf(`topics: %q: want a + or # in each pattern: what it stands for is the key of the stream`, p.text)
		}
		t.patterns = append(t.patterns, p)
	}
	return t, nil
}

// Filters are the patterns, to subscribe to.
func (t *Topics) Filters() []string {
	var f []string
	for _, p := range t.patterns {
		f = append(f, p.text)
	}
	return f
}

// Key is the key of a topic's stream.
func (t *Topics) Key(topic string) (string, error) {
	if !strings.HasPrefix(topic, "$") {
		levels := strings.Split(topic, "/")
		for _, p := range t.patterns {
			if key, ok := p.matchLevels(levels); ok {
				if err := CheckKey(key); err != nil {
					return "", refusedf("topic %q: %v", names.Cut(topic, 80), err)
				}
				return key, nil
			}
		}
	}
	return "", refusedf("topic %q fits none of the patterns %s: send under one of them, or set --topics (gateway.topics), with + for the name of the stream", names.Cut(topic, 80), strings.Join(t.Filters(), ", "))
}

func (p *pattern) matchLevels(levels []string) (string, bool) {
	var key []string
	for i, l := range p.levels {
		if l == "#" {
			if len(levels) <= i { // in MQTT a/# matches a, too: that leaves nothing for a key
				return "", false
			}
			return strings.Join(append(key, levels[i:]...), "/"), true
		}
		if i >= len(levels) || l != "+" && l != levels[i] {
			return "", false
		}
		if l == "+" {
			key = append(key, levels[i])
		}
	}
	return strings.Join(key, "/"), len(levels) == len(p.levels)
}

// CheckKey refuses an invalid key of a stream: a key must be one token of a subject,
// and a name under the project's rule.
func CheckKey(key string) error {
	if err := wire.CheckToken(key); err != nil {
		return fmt.Errorf("the key %w", err)
	}
	return names.Check("key", key)
}
