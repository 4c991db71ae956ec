package sparkplug

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/internal/names"
)

const (
	namespace       = "spBv1.0"
	maxNodes        = 10000
	maxDevices      = 10000           // per node
	rebirthInterval = 5 * time.Second // minimum interval between two requests for the births of a node
	maxUnits        = 1 << 20         // devices and nodes of a host in total
	maxSeq          = 256             // seq counts modulo maxSeq
	msPerNs         = int64(time.Millisecond)
	maxTime         = uint64(1<<63-1) / uint64(time.Millisecond)
	rebirthTopic    = "NCMD"
)

// Channels maps metrics to channels.
type Channels interface {
	Channel(metric string) (channel int, ok bool)
	Name(channel int) (metric string)
	Sample(channel int, value any) (x float32, ok bool)
}

// Options configure a host.
type Options struct {
	Groups   string // accepted groups, separated by commas; "+": all groups
	Channels Channels
	Count    int           // number of channels
	Period   time.Duration // between two samples; 0: one sample per source time
	End      bool          // a death ends the sequences of the affected streams
}

// Host tracks edge nodes and makes samples from their messages.
type Host struct {
	gateway *gateway.Gateway
	options Options
	groups  []string

	mu    sync.Mutex
	nodes map[string]*node // by group/node
	units atomic.Int64
}

// New returns a host that gives samples to g.
func New(g *gateway.Gateway, options Options) (*Host, error) {
	groups, err := parseGroups(options.Groups)
	if err != nil {
		return nil, err
	}
	return &Host{gateway: g, options: options, groups: groups, nodes: map[string]*node{}}, nil
}

// CheckGroups reports an error in a list of groups.
func CheckGroups(list string) error {
	_, err := parseGroups(list)
	return err
}

func parseGroups(list string) ([]string, error) {
	var groups []string
	for group := range strings.SplitSeq(list, ",") {
		group = strings.TrimSpace(group)
		if group == "" || group != "+" && strings.ContainsAny(group, "+#/") {
			return nil, fmt.Errorf("gateway: groups of Sparkplug B %q: want group ids, separated by commas, or + for all", list)
		}
		groups = append(groups, group)
	}
	return groups, nil
}

// Filters returns the topic filters to subscribe to.
func (h *Host) Filters() []string {
	var filters []string
	for _, group := range h.groups {
		filters = append(filters, namespace+"/"+group+"/#")
	}
	return filters
}

// HasTopic reports whether a topic belongs to Sparkplug B, whatever its group.
func HasTopic(topic string) bool { return strings.HasPrefix(topic, namespace+"/") }

// IsDeath reports whether a topic announces the death of an edge node.
func IsDeath(topic string) bool {
	levels := strings.Split(topic, "/")
	return len(levels) == 4 && levels[0] == namespace && levels[2] == "NDEATH"
}

// IsCommandFilter reports whether an edge node uses a filter for its commands or the state of
// hosts.
func IsCommandFilter(filter string) bool {
	levels := strings.Split(filter, "/")
	if len(levels) < 3 || levels[0] != namespace {
		return false
	}
	return levels[1] == "STATE" || (levels[2] == "NCMD" || levels[2] == "DCMD") && len(levels) >= 4
}

// topic is a parsed topic of Sparkplug B.
type topic struct {
	group, kind, node, device string
}

func (h *Host) parseTopic(text string) (t topic, err error) {
	levels := strings.Split(text, "/")
	if len(levels) >= 2 && levels[1] == "STATE" {
		return topic{kind: "STATE"}, nil
	}
	if len(levels) < 4 || len(levels) > 5 {
		return t, &gateway.Refused{Why: fmt.Sprintf("topic %q: want %s/GROUP/TYPE/NODE or %s/GROUP/TYPE/NODE/DEVICE", names.Cut(text, 80), namespace, namespace)}
	}
	t = topic{group: levels[1], kind: levels[2], node: levels[3]}
	if len(levels) == 5 {
		t.device = levels[4]
	}
	found := false
	for _, g := range h.groups {
		found = found || g == "+" || g == t.group
	}
	if !found {
		return t, &gateway.Refused{Why: fmt.Sprintf("topic %q: its group is not one of gateway.sparkplug.groups (%s)", names.Cut(text, 80), strings.Join(h.groups, ", "))}
	}
	device := t.device != ""
	switch t.kind {
	case "NBIRTH", "NDATA", "NDEATH", "NCMD":
		if device {
			return t, &gateway.Refused{Why: fmt.Sprintf("topic %q: %s is a message of a node, but the topic has a device", names.Cut(text, 80), t.kind)}
		}
	case "DBIRTH", "DDATA", "DDEATH", "DCMD":
		if !device {
			return t, &gateway.Refused{Why: fmt.Sprintf("topic %q: %s is a message of a device, but the topic has no device", names.Cut(text, 80), t.kind)}
		}
	default:
		return t, &gateway.Refused{Why: fmt.Sprintf("topic %q: %q is no type of message: want NBIRTH, DBIRTH, NDATA, DDATA, NDEATH or DDEATH", names.Cut(text, 80), names.Cut(t.kind, 40))}
	}
	return t, nil
}

// HandleMessage gives a Sparkplug B message to the gateway. The message m has all fields except
// the samples. The function send publishes a command to an edge node and must not block. The
// messages of one node must be in order; messages of different nodes may be concurrent. The
// error is the error of gateway.Take.
func (h *Host) HandleMessage(ctx context.Context, m *gateway.Message, name string, send func(topic string, payload []byte)) error {
	t, err := h.parseTopic(name)
	if err != nil {
		h.gateway.Refuse(m.Input, err)
		return err
	}
	m.Key, m.Parts = "", []gateway.Part{}
	if t.kind == "STATE" || t.kind == "NCMD" || t.kind == "DCMD" { // not for a host
		m.Payload = nil
		return h.gateway.Take(ctx, m)
	}
	p, err := decodePayload(m.Payload)
	if err != nil {
		err = &gateway.Refused{Why: fmt.Sprintf("topic %q: %v", names.Cut(name, 80), err)}
		h.gateway.Refuse(m.Input, err)
		return err
	}
	n, err := h.findNode(t)
	if err != nil {
		h.gateway.Refuse(m.Input, err)
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	a := n.handleMessage(t, p)
	if a.requestBirth && time.Since(n.rebirthRequest) >= rebirthInterval {
		n.rebirthRequest = time.Now()
		send(namespace+"/"+t.group+"/"+rebirthTopic+"/"+t.node, rebirthCommand(uint64(time.Now().UnixMilli())))
	}
	for _, err := range a.wrong {
		h.gateway.Refuse(m.Input, err)
	}
	if a.refused != nil {
		h.gateway.Refuse(m.Input, a.refused)
		return a.refused
	}
	if a.parts != nil {
		m.Parts = a.parts
	}
	return h.gateway.Take(ctx, m)
}

// MarkLost marks all nodes after an interruption of their connection: messages may be lost.
func (h *Host) MarkLost() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range h.nodes {
		n.lost.Store(true)
	}
}

func (h *Host) findNode(t topic) (*node, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := t.group + "/" + t.node
	n := h.nodes[key]
	if n == nil {
		if len(h.nodes) == maxNodes {
			return nil, &gateway.Refused{Why: fmt.Sprintf("edge node %q: the limit of %d edge nodes is reached", names.Cut(key, 80), maxNodes)}
		}
		n = &node{host: h, key: key, units: map[string]*unit{}}
		h.nodes[key] = n
	}
	return n, nil
}
