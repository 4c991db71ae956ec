package sparkplug

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/internal/gateway/internal/image"
	"github.com/eusn-stream/eusn-stream/internal/names"
)

// node is an edge node.
type node struct {
	host           *Host
	key            string
	lost           atomic.Bool // messages before the next message may be lost
	mu             sync.Mutex  // guards all fields below
	born           bool
	seq            uint64 // of the newest message
	bdseq          uint64 // of the newest birth
	rebirthRequest time.Time
	units          map[string]*unit // devices by id; "" is the node itself
}

// unit is a device, or the node itself. Each unit has a stream.
type unit struct {
	key     string
	born    bool
	image   *image.Image // nil: no metric is a channel of the model
	aliases map[uint64]int
	kinds   []uint64 // the data type of each channel's metric in the birth
}

// action is the result of a message.
type action struct {
	parts        []gateway.Part
	requestBirth bool    // request the births of the node
	wrong        []error // reasons for refused parts
	refused      error   // reason for the refusal of the whole message
}

func newRefused(format string, args ...any) error {
	return &gateway.Refused{Why: fmt.Sprintf(format, args...)}
}

// handleMessage updates the node for a message.
func (n *node) handleMessage(t topic, p *payload) (a action) {
	switch t.kind {
	case "NDEATH":
		return n.handleDeath(p)
	case "NBIRTH":
		return n.handleBirth(p)
	}
	if !n.born {
		a.requestBirth = true
		a.refused = newRefused("edge node %q sends %s before its birth: its birth was requested", names.Cut(n.key, 80), t.kind)
		return a
	}
	switch want := (n.seq + 1) % maxSeq; {
	case !p.ordered:
		a.refused = newRefused("edge node %q: %s has no seq", names.Cut(n.key, 80), t.kind)
		return a
	case p.seq != want: // messages are lost, of any device of the node
		a.requestBirth = true
		n.markGap()
		a.wrong = append(a.wrong, newRefused("edge node %q: messages are lost: seq is %d, want %d; its births were requested", names.Cut(n.key, 80), p.seq, want))
	case n.lost.Load():
		a.requestBirth = true
		n.markGap()
	}
	n.lost.Store(false)
	n.seq = p.seq
	u := n.units[t.device]
	switch {
	case t.kind == "DBIRTH":
		n.handleUnitBirth(t.device, p, &a)
	case t.kind == "DDEATH":
		if u != nil && u.born {
			a.parts = n.endUnit(u, a.parts)
		}
	case u == nil || !u.born: // the birth was lost or never sent
		if t.device != "" {
			a.requestBirth = true
			a.refused = newRefused("device %q sends data before its birth: its birth was requested from its node", names.Cut(n.key+"/"+t.device, 80))
		}
	case u.image != nil:
		if err := n.handleData(u, p, &a); err != nil {
			u.image.MarkGap()
			a.refused = err
		}
	}
	return a
}

// markGap marks lost messages in all streams of the node.
func (n *node) markGap() {
	for _, u := range n.units {
		if u.image != nil {
			u.image.MarkGap()
		}
	}
}

// handleDeath ends a node's MQTT session if the death has the number of the newest birth: the
// broker may send a death after the next birth.
func (n *node) handleDeath(p *payload) (a action) {
	if !n.born || p.bdSeq() != n.bdseq {
		return a
	}
	n.born = false
	for _, u := range n.sortedUnits() {
		if u.born {
			a.parts = n.endUnit(u, a.parts)
		}
	}
	return a
}

// endUnit marks a unit as dead.
func (n *node) endUnit(u *unit, parts []gateway.Part) []gateway.Part {
	u.born = false
	if u.image == nil {
		return parts
	}
	u.image.MarkGap()
	parts = append(parts, u.image.TakeParts()...)
	if n.host.options.End {
		parts = append(parts, gateway.Part{Key: u.key, End: true})
	}
	return parts
}

func (n *node) sortedUnits() []*unit {
	var units []*unit
	for _, u := range n.units {
		units = append(units, u)
	}
	slices.SortFunc(units, func(a, b *unit) int { return cmp.Compare(a.key, b.key) })
	return units
}

// handleBirth starts a session of a node. The births of its devices follow.
func (n *node) handleBirth(p *payload) (a action) {
	bdseq := p.bdSeq()
	if !n.born || n.lost.Swap(false) || bdseq != n.bdseq { // a different bdSeq means an unseen death
		n.markGap()
	}
	n.born, n.seq, n.bdseq = true, p.seq, bdseq
	for _, u := range n.sortedUnits() {
		u.born = false
		if u.image != nil {
			a.parts = append(a.parts, u.image.TakeParts()...)
		}
	}
	n.handleUnitBirth("", p, &a)
	return a
}

// handleUnitBirth stores the values of a device, or of the node itself.
func (n *node) handleUnitBirth(device string, p *payload, a *action) {
	u := n.units[device]
	if u == nil {
		if !n.host.reserveUnit(len(n.units)) {
			a.refused = newRefused("device %q: there are too many devices: the limits are %d per node and %d in total", names.Cut(n.key+"/"+device, 80), maxDevices, maxUnits)
			return
		}
		key := n.key
		if device != "" {
			key += "/" + device
		}
		u = &unit{key: key}
		n.units[device] = u
	}
	u.born = true
	found, err := n.findChannels(u, p)
	if err == nil {
		return
	}
	if u.image != nil {
		u.image.MarkGap()
		a.parts = append(a.parts, u.image.TakeParts()...)
		u.image = nil
	}
	if found > 0 || device != "" { // the node's own metrics may be unrelated to the model
		a.wrong = append(a.wrong, err)
	}
}

// findChannels finds the channels among the metrics of a birth, and stores their values.
func (n *node) findChannels(u *unit, p *payload) (found int, err error) {
	o := &n.host.options
	metrics := make([]*metric, o.Count)
	aliases := map[uint64]int{}
	for i := range p.metrics {
		m := &p.metrics[i]
		c, ok := o.Channels.Channel(m.name)
		if !ok || !m.named {
			continue
		}
		if metrics[c] == nil {
			found++
		}
		metrics[c] = m
		if m.aliased {
			if channel, twice := aliases[m.alias]; twice && channel != c {
				return found, newRefused("birth of %q: the metrics %q and %q have the same alias, %d", names.Cut(u.key, 80), o.Channels.Name(channel), m.name, m.alias)
			}
			aliases[m.alias] = c
		}
	}
	var missing []string
	for c, m := range metrics {
		if m == nil {
			missing = append(missing, fmt.Sprintf("%q", o.Channels.Name(c)))
		}
	}
	if len(missing) > 0 {
		return found, newRefused("birth of %q: it has no metric %s, only %s: set input.channels, such as {CHANNEL: METRIC}; its data are refused", names.Cut(u.key, 80), names.Cut(strings.Join(missing, ", "), 200), p.listNames())
	}
	kinds, x := make([]uint64, o.Count), make([]float32, o.Count)
	for c, m := range metrics {
		if kinds[c] = m.kind; m.kind != 0 {
			if ok, words := isNumeric(m.kind); !ok {
				return found, newRefused("birth of %q: metric %q is %s, which cannot be a sample: want a number, a bool, or a numeric text; its data are refused", names.Cut(u.key, 80), m.name, words)
			}
		}
		if x[c], err = n.sample(u, c, m, m.kind); err != nil {
			return found, err
		}
	}
	if u.image == nil {
		if err := gateway.CheckKey(u.key); err != nil {
			return found, newRefused("birth of %q: %v", names.Cut(u.key, 80), err)
		}
		u.image = image.New(u.key, o.Count, o.Period)
		u.image.MarkGap() // samples of the previous run are missing
	}
	u.aliases, u.kinds = aliases, kinds
	u.image.StartBirth()
	for c := range x {
		u.image.SetInitial(c, x[c])
	}
	return found, nil
}

// handleData makes samples of the metrics of a message, in the order of their times.
func (n *node) handleData(u *unit, p *payload, a *action) error {
	type value struct {
		c   int
		at  int64
		x   float32
		old bool
	}
	var values []value
	for i := range p.metrics {
		m := &p.metrics[i]
		c, ok := -1, false
		if m.named && m.name != "" {
			c, ok = n.host.options.Channels.Channel(m.name)
		} else if m.aliased {
			c, ok = u.aliases[m.alias]
		}
		if !ok {
			continue
		}
		ms := m.time
		switch {
		case m.timed:
		case p.timed:
			ms = p.time
		default:
			return newRefused("data of %q: metric %q has no timestamp, and the message has none either", names.Cut(u.key, 80), n.host.options.Channels.Name(c))
		}
		if ms > maxTime {
			return newRefused("data of %q: metric %q: timestamp %d is out of range", names.Cut(u.key, 80), n.host.options.Channels.Name(c), ms)
		}
		x, err := n.sample(u, c, m, cmp.Or(m.kind, u.kinds[c]))
		if err != nil {
			return err
		}
		values = append(values, value{c, int64(ms) * msPerNs, x, m.historical})
	}
	slices.SortStableFunc(values, func(a, b value) int { return cmp.Compare(a.at, b.at) })
	late := 0
	for _, v := range values {
		switch {
		case !v.old:
			u.image.Set(v.c, v.at, v.x)
		case !u.image.SetHistorical(v.c, v.at, v.x):
			late++
		}
	}
	if late > 0 {
		a.wrong = append(a.wrong, newRefused("data of %q: %d historical values are not after the stream's last sample", names.Cut(u.key, 80), late))
	}
	a.parts = append(a.parts, u.image.TakeParts()...)
	return nil
}

// missing is the sample of a null or of a value with bad quality; input.non_finite configures
// its handling.
var missing = float32(math.NaN())

// sample converts a metric's value to a sample of channel c.
func (n *node) sample(u *unit, c int, m *metric, kind uint64) (float32, error) {
	name := n.host.options.Channels.Name(c)
	switch {
	case m.null || m.quality == notGood:
		return missing, nil
	case m.quality == noNumber:
		return 0, newRefused("message of %q: metric %q has a property Quality, which is not an integer: want 192 (good), 0 (bad) or 500 (stale)", names.Cut(u.key, 80), name)
	}
	if m.complex != "" {
		return 0, newRefused("message of %q: metric %q is %s, which cannot be a sample: want a number, a bool, or a numeric text", names.Cut(u.key, 80), name, m.complex)
	}
	if m.value == nil {
		return 0, newRefused("message of %q: metric %q has neither a value nor is_null", names.Cut(u.key, 80), name)
	}
	x, ok := n.host.options.Channels.Sample(c, m.typedValue(kind))
	if !ok {
		return 0, newRefused("message of %q: metric %q is a text, but not a number", names.Cut(u.key, 80), name)
	}
	return x, nil
}

// bdSeq returns the session number in a birth or death.
func (p *payload) bdSeq() uint64 {
	for i := range p.metrics {
		if m := &p.metrics[i]; m.name == "bdSeq" {
			n, _ := m.value.(uint64)
			return n
		}
	}
	return 0
}

// listNames lists the names of some metrics of a message.
func (p *payload) listNames() string {
	var list []string
	for i := range p.metrics {
		if len(list) == 12 {
			list = append(list, "more")
			break
		}
		list = append(list, fmt.Sprintf("%q", names.Cut(p.metrics[i].name, 40)))
	}
	if len(list) == 0 {
		return "nothing"
	}
	return strings.Join(list, ", ")
}

// reserveUnit reports whether a node with a number of units may have another unit.
func (h *Host) reserveUnit(count int) bool {
	return count <= maxDevices && h.units.Add(1) <= maxUnits
}
