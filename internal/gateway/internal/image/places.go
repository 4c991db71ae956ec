package image

import (
	"fmt"
	"slices"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/gateway"
)

// Place is a channel of a stream.
type Place struct{ Stream, Channel int }

// Setting describes a setting with names of the form KEY/CHANNEL, for error messages.
type Setting struct {
	Name    string // name of the setting, such as gateway.opcua.nodes
	Each    string // word for an element, such as node
	Example string // example of an element
}

// Places resolves the names of a setting: keys are the streams' keys in the order of the names,
// and places has an element for each name. Each stream must have all channels.
func (s Setting) Places(names, channels []string) (keys []string, places []Place, err error) {
	if len(names) == 0 {
		return nil, nil, fmt.Errorf("gateway: %s is empty: want a %s for each channel of each stream, such as {pump7/%s: %s}", s.Name, s.Each, channels[0], s.Example)
	}
	found := map[string][]bool{}
	for _, name := range names {
		key, channel := "", -1
		for c, ch := range channels {
			if k, ok := strings.CutSuffix(name, "/"+ch); ok && (channel < 0 || len(k) < len(key)) {
				key, channel = k, c
			}
		}
		if channel < 0 {
			return nil, nil, fmt.Errorf("gateway: %s: %q: want the key of a stream, a / and a channel of the model (%s)", s.Name, name, strings.Join(channels, ", "))
		}
		if err := gateway.CheckKey(key); err != nil {
			return nil, nil, fmt.Errorf("gateway: %s: %q: %w", s.Name, name, err)
		}
		if found[key] == nil {
			found[key] = make([]bool, len(channels))
			keys = append(keys, key)
		}
		found[key][channel] = true
		places = append(places, Place{slices.Index(keys, key), channel})
	}
	for _, key := range keys {
		if c := slices.Index(found[key], false); c >= 0 {
			return nil, nil, fmt.Errorf("gateway: %s: stream %q has no %s for channel %q", s.Name, key, s.Each, channels[c])
		}
	}
	return keys, places, nil
}
