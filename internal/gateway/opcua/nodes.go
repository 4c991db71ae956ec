package opcua

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gopcua/opcua/ua"

	"github.com/eusn-stream/eusn-stream/internal/gateway/internal/image"
)

// item is a variable of the server and its place in the samples.
type item struct {
	id *ua.NodeID
	image.Place
}

var nodesSetting = image.Setting{Name: "gateway.opcua.nodes", Each: "node", Example: "ns=2;s=Pump7.X"}

// parseNodes parses nodes by KEY/CHANNEL. Each stream must have all channels.
func parseNodes(nodes map[string]string, channels []string) (keys []string, items []item, err error) {
	names := slices.Sorted(maps.Keys(nodes))
	keys, places, err := nodesSetting.Places(names, channels)
	if err != nil {
		return nil, nil, err
	}
	for i, name := range names {
		id, err := ua.ParseNodeID(nodes[name])
		if err != nil {
			return nil, nil, fmt.Errorf("gateway: gateway.opcua.nodes: %q is %q: want a node id, such as ns=2;s=Pump7.X or ns=2;i=1001: %w", name, nodes[name], err)
		}
		items = append(items, item{id, places[i]})
	}
	return keys, items, nil
}
