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
	h     *Host
	key   string
	lost  atomic.Bool // messages may be missing before the next
	mu    sync.Mutex  // of all that follows
	born  bool
	seq   uint64 // of the last message
	bdseq uint64 // of the last birth
	asked time.Time
	units map[string]*unit // devices by id; "" is the node itself
}

// unit is a device, or the node itself: what has a stream.
type unit struct {
	key     string
	born    bool
	image   *image.Image // nil: it has no channel of the model
	aliases map[uint64]int
	kinds   []uint64 // of each channel's metric, by the birth
}

// action is what becomes of a message.
type action struct {
	parts   []gateway.Part
	ask     bool    // the node for its births
	wrong   []error // what is not taken of it
	refused error   // all of it
}

func refuse(format string, args ...any) error {
	return &gateway.Refused{Why: fmt.Sprintf(format, args...)}
}

// take changes what is known of a node.
func (n *node) take(t topic, p *payload) (a action) {
	switch t.kind {
	case "NDEATH":
		return n.death(p)
	case "NBIRTH":
		return n.birth(p)
	}
	if !n.born {
		a.ask = true
		a.refused = refuse("edge node %q sends %s before its birth: it is asked for one", names.Cut(n.key, 80), t.kind)
		return a
	}
	switch want := (n.seq + 1) % mostSeq; {
	case !p.ordered:
		a.refused = refuse("edge node %q: %s has no seq", names.Cut(n.key, 80), t.kind)
		return a
	case p.seq != want: // messages are lost, of whichever of its devices
		a.ask = true
		n.gap()
		a.wrong = append(a.wrong, refuse("edge node %q: messages are lost: seq is %d, want %d; it is asked for its births", names.Cut(n.key, 80), p.seq, want))
	case n.lost.Load():
		a.ask = true
		n.gap()
	}
	n.lost.Store(false)
	n.seq = p.seq
	u := n.units[t.device]
	switch {
	case t.kind == "DBIRTH":
		n.unitBirth(t.device, p, &a)
	case t.kind == "DDEATH":
		if u != nil && u.born {
			a.parts = n.bury(u, a.parts)
		}
	case u == nil || !u.born: // its birth was lost, or there was none
		if t.device != "" {
			a.ask = true
			a.refused = refuse("device %q sends before its birth: its node is asked for one", names.Cut(n.key+"/"+t.device, 80))
		}
	case u.image != nil:
		if err := n.data(u, p, &a); err != nil {
			u.image.Gap()
			a.refused = err
		}
	}
	return a
}

// gap says that messages of a node are lost.
func (n *node) gap() {
	for _, u := range n.units {
		if u.image != nil {
			u.image.Gap()
		}
	}
}

// death ends a node's session, if it is of this one: the broker may send it after the
// birth of the next.
func (n *node) death(p *payload) (a action) {
	if !n.born || p.bdSeq() != n.bdseq {
		return a
	}
	n.born = false
	for _, u := range n.sorted() {
		if u.born {
			a.parts = n.bury(u, a.parts)
		}
	}
	return a
}

// bury notes that a unit sends nothing any more.
func (n *node) bury(u *unit, parts []gateway.Part) []gateway.Part {
	u.born = false
	if u.image == nil {
		return parts
	}
	u.image.Gap()
	parts = append(parts, u.image.Parts()...)
	if n.h.o.End {
		parts = append(parts, gateway.Part{Key: u.key, End: true})
	}
	return parts
}

func (n *node) sorted() []*unit {
	var all []*unit
	for _, u := range n.units {
		all = append(all, u)
	}
	slices.SortFunc(all, func(a, b *unit) int { return cmp.Compare(a.key, b.key) })
	return all
}

// birth begins a session of a node. Its devices have births of their own after
// it.
func (n *node) birth(p *payload) (a action) {
	bdseq := p.bdSeq()
	if !n.born || n.lost.Swap(false) || bdseq != n.bdseq { // the last: a death that nobody has seen
		n.gap()
	}
	n.born, n.seq, n.bdseq = true, p.seq, bdseq
	for _, u := range n.sorted() {
		u.born = false
		if u.image != nil {
			a.parts = append(a.parts, u.image.Parts()...)
		}
	}
	n.unitBirth("", p, &a)
	return a
}

// unitBirth notes the values of a device, or of the node itself.
func (n *node) unitBirth(device string, p *payload, a *action) {
	u := n.units[device]
	if u == nil {
		if !n.h.room(len(n.units)) {
			a.refused = refuse("device %q: there are too many devices: %d of a node, %d in all", names.Cut(n.key+"/"+device, 80), mostDevices, mostUnits)
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
	found, err := n.metrics(u, p)
	if err == nil {
		return
	}
	if u.image != nil {
		u.image.Gap()
		a.parts = append(a.parts, u.image.Parts()...)
		u.image = nil
	}
	if found > 0 || device != "" { // the node's own metrics may be of other things
		a.wrong = append(a.wrong, err)
	}
}

// metrics finds the channels among the metrics of a birth, and notes their
// values.
func (n *node) metrics(u *unit, p *payload) (found int, err error) {
	o := &n.h.o
	at := make([]*metric, o.Count)
	aliases := map[uint64]int{}
	for i := range p.metrics {
		m := &p.metrics[i]
		c, ok := o.Channels.Channel(m.name)
		if !ok || !m.named {
			continue
		}
		if at[c] == nil {
			found++
		}
		at[c] = m
		if m.aliased {
			if other, twice := aliases[m.alias]; twice && other != c {
				return found, refuse("birth of %q: the metrics %q and %q have the same alias, %d", names.Cut(u.key, 80), o.Channels.Name(other), m.name, m.alias)
			}
			aliases[m.alias] = c
		}
	}
	var missing []string
	for c, m := range at {
		if m == nil {
			missing = append(missing, fmt.Sprintf("%q", o.Channels.Name(c)))
		}
	}
	if len(missing) > 0 {
		return found, refuse("birth of %q: it has no metric %s, only %s: set input.channels, such as {CHANNEL: METRIC}; its data are not taken", names.Cut(u.key, 80), names.Cut(strings.Join(missing, ", "), 200), p.list())
	}
	kinds, x := make([]uint64, o.Count), make([]float32, o.Count)
	for c, m := range at {
		if kinds[c] = m.kind; m.kind != 0 {
			if ok, what := number(m.kind); !ok {
				return found, refuse("birth of %q: metric %q is %s, which cannot be a sample: want a number, a bool, or a text that is a number; its data are not taken", names.Cut(u.key, 80), m.name, what)
			}
		}
		if x[c], err = n.sample(u, c, m, m.kind); err != nil {
			return found, err
		}
	}
	if u.image == nil {
		if err := gateway.CheckKey(u.key); err != nil {
			return found, refuse("birth of %q: %v", names.Cut(u.key, 80), err)
		}
		u.image = image.New(u.key, o.Count, o.Period)
		u.image.Gap() // of what was sent before this run
	}
	u.aliases, u.kinds = aliases, kinds
	u.image.Begin()
	for c := range x {
		u.image.Know(c, x[c])
	}
	return found, nil
}

// data makes samples of the metrics of a message, in the order of their times.
func (n *node) data(u *unit, p *payload, a *action) error {
	type value struct {
		c   int
		at  int64
		x   float32
		old bool
	}
	var all []value
	for i := range p.metrics {
		m := &p.metrics[i]
		c, ok := -1, false
		if m.named && m.name != "" {
			c, ok = n.h.o.Channels.Channel(m.name)
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
			return refuse("data of %q: metric %q has no timestamp, and neither has its message", names.Cut(u.key, 80), n.h.o.Channels.Name(c))
		}
		if ms > mostTime {
			return refuse("data of %q: metric %q: timestamp %d is out of range", names.Cut(u.key, 80), n.h.o.Channels.Name(c), ms)
		}
		x, err := n.sample(u, c, m, cmp.Or(m.kind, u.kinds[c]))
		if err != nil {
			return err
		}
		all = append(all, value{c, int64(ms) * msPerNs, x, m.historical})
	}
	slices.SortStableFunc(all, func(a, b value) int { return cmp.Compare(a.at, b.at) })
	late := 0
	for _, v := range all {
		switch {
		case !v.old:
			u.image.Set(v.c, v.at, v.x)
		case !u.image.SetOld(v.c, v.at, v.x):
			late++
		}
	}
	if late > 0 {
		a.wrong = append(a.wrong, refuse("data of %q: %d historical values are not after the stream's last sample", names.Cut(u.key, 80), late))
	}
	a.parts = append(a.parts, u.image.Parts()...)
	return nil
}

// missing is a null, or a value that is not good: input.non_finite says what becomes of it.
var missing = float32(math.NaN())

// sample is a metric's value as one of channel c.
func (n *node) sample(u *unit, c int, m *metric, kind uint64) (float32, error) {
	name := n.h.o.Channels.Name(c)
	switch {
	case m.null || m.quality == notGood:
		return missing, nil
	case m.quality == noNumber:
		return 0, refuse("message of %q: metric %q has a property Quality that is no integer: want 192 (good), 0 (bad) or 500 (stale)", names.Cut(u.key, 80), name)
	}
	if m.complex != "" {
		return 0, refuse("message of %q: metric %q is %s, which cannot be a sample: want a number, a bool, or a text that is a number", names.Cut(u.key, 80), name, m.complex)
	}
	if m.value == nil {
		return 0, refuse("message of %q: metric %q has no value, and is not null", names.Cut(u.key, 80), name)
	}
	x, ok := n.h.o.Channels.Sample(c, m.typed(kind))
	if !ok {
		return 0, refuse("message of %q: metric %q is a text that is no number", names.Cut(u.key, 80), name)
	}
	return x, nil
}

// bdSeq tells the sessions of a node apart. It is in births and deaths.
func (p *payload) bdSeq() uint64 {
	for i := range p.metrics {
		if m := &p.metrics[i]; m.name == "bdSeq" {
			n, _ := m.value.(uint64)
			return n
		}
	}
	return 0
}

// list names some metrics of a message.
func (p *payload) list() string {
	var all []string
	for i := range p.metrics {
		if len(all) == 12 {
			all = append(all, "more")
			break
		}
		all = append(all, fmt.Sprintf("%q", names.Cut(p.metrics[i].name, 40)))
	}
	if len(all) == 0 {
		return "nothing"
	}
	return strings.Join(all, ", ")
}

// room reports whether a node that has so many units may have one more.
func (h *Host) room(has int) bool {
	return has <= mostDevices && h.units.Add(1) <= mostUnits
}
