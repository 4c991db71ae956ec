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
	namespace    = "spBv1.0"
	mostNodes    = 10000
	mostDevices  = 10000           // of a node
	askAgain     = 5 * time.Second // between two requests for the births of a node
	mostUnits    = 1 << 20         // devices and nodes of a host, all together
	mostSeq      = 256             // numbers begin again after so many
	msPerNs      = int64(time.Millisecond)
	mostTime     = uint64(1<<63-1) / uint64(time.Millisecond)
	rebirthTopic = "NCMD"
)

// Channels says which metric is which channel.
type Channels interface {
	Channel(metric string) (channel int, ok bool)
	Name(channel int) (metric string)
	Sample(channel int, value any) (x float32, ok bool)
}

// Options say what a host does.
type Options struct {
	Groups   string // whose messages it takes, separated by commas; "+" = all
	Channels Channels
	Count    int           // channels
	Period   time.Duration // between two samples; 0: a sample for each time that values have
	End      bool          // a death ends the sequences of its streams
}

// Host keeps what is known of each edge node, and makes samples of what they
// send.
type Host struct {
	g      *gateway.Gateway
	o      Options
	groups []string

	mu    sync.Mutex
	nodes map[string]*node // by group/node
	units atomic.Int64
}

// New returns a host that gives samples to g.
func New(g *gateway.Gateway, o Options) (*Host, error) {
	groups, err := parseGroups(o.Groups)
	if err != nil {
		return nil, err
	}
	return &Host{g: g, o: o, groups: groups, nodes: map[string]*node{}}, nil
}

// CheckGroups says what is wrong with a list of groups.
func CheckGroups(list string) error {
	_, err := parseGroups(list)
	return err
}

func parseGroups(list string) ([]string, error) {
	var all []string
	for group := range strings.SplitSeq(list, ",") {
		group = strings.TrimSpace(group)
		if group == "" || group != "+" && strings.ContainsAny(group, "+#/") {
			return nil, fmt.Errorf("gateway: groups of Sparkplug B %q: want group ids, separated by commas, or + for all", list)
		}
		all = append(all, group)
	}
	return all, nil
}

// Filters are the topics that the host takes, to subscribe to.
func (h *Host) Filters() []string {
	var all []string
	for _, group := range h.groups {
		all = append(all, namespace+"/"+group+"/#")
	}
	return all
}

// Has reports whether a topic is one of Sparkplug B, of whichever group.
func Has(topic string) bool { return strings.HasPrefix(topic, namespace+"/") }

// IsDeath reports whether a topic is one by which a broker says that an edge node is
// gone.
func IsDeath(topic string) bool {
	levels := strings.Split(topic, "/")
	return len(levels) == 4 && levels[0] == namespace && levels[2] == "NDEATH"
}

// Commands reports whether a filter is one by which an edge node asks for its
// commands, or for the state of hosts.
func Commands(filter string) bool {
	levels := strings.Split(filter, "/")
	if len(levels) < 3 || levels[0] != namespace {
		return false
	}
	return levels[1] == "STATE" || (levels[2] == "NCMD" || levels[2] == "DCMD") && len(levels) >= 4
}

// topic is one of Sparkplug B, taken apart.
type topic struct {
	group, kind, node, device string
}

func (h *Host) parse(text string) (t topic, err error) {
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
			return t, &gateway.Refused{Why: fmt.Sprintf("topic %q: %s is of a node, and this has a device", names.Cut(text, 80), t.kind)}
		}
	case "DBIRTH", "DDATA", "DDEATH", "DCMD":
		if !device {
			return t, &gateway.Refused{Why: fmt.Sprintf("topic %q: %s is of a device, and this has none", names.Cut(text, 80), t.kind)}
		}
	default:
		return t, &gateway.Refused{Why: fmt.Sprintf("topic %q: %q is no type of message: want NBIRTH, DBIRTH, NDATA, DDATA, NDEATH or DDEATH", names.Cut(text, 80), names.Cut(t.kind, 40))}
	}
	return t, nil
}

// Take gives a message of Sparkplug B to the gateway. m has all but the samples.
// send publishes a command to an edge node; it must not wait. The messages of a node
// must come in order, though those of different nodes may come at the same time.
// The error is that of gateway.Take.
func (h *Host) Take(ctx context.Context, m *gateway.Message, name string, send func(topic string, payload []byte)) error {
	t, err := h.parse(name)
	if err != nil {
		h.g.Refuse(m.Input, err)
		return err
	}
	m.Key, m.Parts = "", []gateway.Part{}
	if t.kind == "STATE" || t.kind == "NCMD" || t.kind == "DCMD" { // for others
		m.Payload = nil
		return h.g.Take(ctx, m)
	}
	p, err := decode(m.Payload)
	if err != nil {
		err = &gateway.Refused{Why: fmt.Sprintf("topic %q: %v", names.Cut(name, 80), err)}
		h.g.Refuse(m.Input, err)
		return err
	}
	n, err := h.node(t)
	if err != nil {
		h.g.Refuse(m.Input, err)
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	a := n.take(t, p)
	if a.ask && time.Since(n.asked) >= askAgain {
		n.asked = time.Now()
		send(namespace+"/"+t.group+"/"+rebirthTopic+"/"+t.node, rebirth(uint64(time.Now().UnixMilli())))
	}
	for _, why := range a.wrong {
		h.g.Refuse(m.Input, why)
	}
	if a.refused != nil {
		h.g.Refuse(m.Input, a.refused)
		return a.refused
	}
	if a.parts != nil {
		m.Parts = a.parts
	}
	return h.g.Take(ctx, m)
}

// Lost says that messages may have been lost: the connection by which they come was
// interrupted.
func (h *Host) Lost() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range h.nodes {
		n.lost.Store(true)
	}
}

func (h *Host) node(t topic) (*node, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := t.group + "/" + t.node
	n := h.nodes[key]
	if n == nil {
		if len(h.nodes) == mostNodes {
			return nil, &gateway.Refused{Why: fmt.Sprintf("edge node %q: there are %d already, as many as there may be", names.Cut(key, 80), mostNodes)}
		}
		n = &node{h: h, key: key, units: map[string]*unit{}}
		h.nodes[key] = n
	}
	return n, nil
}
