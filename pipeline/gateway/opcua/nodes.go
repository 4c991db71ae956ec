package opcua

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gopcua/opcua/ua"

	"github.com/eusn-stream/eusn-stream/pipeline/gateway"
)

// item is a variable of the server, and what it is.
type item struct {
	id      *ua.NodeID
	stream  int
	channel int
}

// parseNodes reads nodes by KEY/CHANNEL. Each stream must have all channels.
func parseNodes(nodes map[string]string, channels []string) (keys []string, items []item, err error) {
	if len(nodes) == 0 {
		return nil, nil, fmt.Errorf("gateway: fieldbus.opcua_nodes is empty: want a node for each channel of each stream, such as {pump7/%s: ns=2;s=Pump7.X}", channels[0])
	}
	has := map[string][]bool{}
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		key, channel := "", -1
		for c, ch := range channels {
			if k, ok := strings.CutSuffix(name, "/"+ch); ok && (channel < 0 || len(k) < len(key)) {
				key, channel = k, c
			}
		}
		if channel < 0 {
			return nil, nil, fmt.Errorf("gateway: fieldbus.opcua_nodes: %q: want the key of a stream, a / and a channel of the model (%s)", name, strings.Join(channels, ", "))
		}
		if err := gateway.CheckKey(key); err != nil {
			return nil, nil, fmt.Errorf("gateway: fieldbus.opcua_nodes: %q: %w", name, err)
		}
		id, err := ua.ParseNodeID(nodes[name])
		if err != nil {
			return nil, nil, fmt.Errorf("gateway: fieldbus.opcua_nodes: %q is %q: want a node id, such as ns=2;s=Pump7.X or ns=2;i=1001: %w", name, nodes[name], err)
		}
		if has[key] == nil {
			has[key] = make([]bool, len(channels))
			keys = append(keys, key)
		}
		has[key][channel] = true
		items = append(items, item{id, slices.Index(keys, key), channel})
	}
	for _, key := range keys {
		if c := slices.Index(has[key], false); c >= 0 {
			return nil, nil, fmt.Errorf("gateway: fieldbus.opcua_nodes: stream %q has no node for channel %q", key, channels[c])
		}
	}
	return keys, items, nil
}
