package discover

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/gateway"
	"github.com/eusn-stream/eusn-stream/internal/gateway/values"
	"github.com/eusn-stream/eusn-stream/internal/names"
)

// Layout is what messages contain.
type Layout struct {
	Kinds  []Kind   // the kind with the most machines first
	Other  []Other  // topics without channels
	Doubts []string // other possible divisions into machines
}

// Kind is a group of machines with the same channels.
type Kind struct {
	Machines []string          // keys of the streams seen so far
	Channels []string          // sorted
	Sources  map[string]string // place of each channel in a message, if it is not its name
	Single   bool              // a message has a single value, and its topic the channel
	Lists    bool              // a message has lists of samples
	Time     string            // place of the time; empty: none
	TimeUnit string
	TimeStep time.Duration // between the samples of a list; 0: no lists, or no time
	Stream   string        // place of the name of the machine; empty: the topic
	Topics   string        // patterns
	Keys     string        // patterns of keys; empty: all that match the topics
	Own      []string      // the topics of the machines
	LeftOut  []string

	// Of an address space.
	Nodes  map[string]map[string]string // by machine and channel
	Period time.Duration                // between two samples
}

// Other is an unused topic.
type Other struct{ Topic, Why string }

// topicState is what the messages of a topic have in common.
type topicState struct {
	topic    string
	messages int
	form     form
	why      string
	fields   map[string]field
	missing  map[string]bool // fields that not all messages have
	lists    bool
	times    map[string]float64
	texts    map[string]map[string]bool
	rows     int // samples of all messages but the last
	lastRows int
	clock    [2]float64 // time of the first and of the last message
}

// Find finds the kinds of machines in messages.
func Find(messages []Message) Layout {
	topics := map[string]*topicState{}
	for _, m := range messages {
		t := topics[m.Topic]
		if t == nil {
			t = &topicState{topic: m.Topic, missing: map[string]bool{}}
			topics[m.Topic] = t
		}
		t.addMessage(parseMessage(m.Payload))
	}
	var l Layout
	kinds := map[string]*builder{}
	for _, name := range sortedKeys(topics) {
		t := topics[name]
		if why := t.refusal(); why != "" {
			l.Other = append(l.Other, Other{name, why})
			continue
		}
		if t.form == object {
			addTo(kinds, t.signature(), t, name)
		}
	}
	addSingles(kinds, topics, &l)
	all := slices.Sorted(maps.Keys(topics))
	for _, signature := range sortedKeys(kinds) {
		if k := kinds[signature].makeKind(all, &l); len(k.Machines) > 0 && len(k.Channels) > 0 {
			l.Kinds = append(l.Kinds, k)
		}
	}
	sortKinds(l.Kinds)
	return l
}

// addMessage adds a message of the topic.
func (t *topicState) addMessage(c content) {
	t.messages++
	if t.messages == 1 {
		t.form, t.why, t.fields, t.times, t.lists = c.form, c.why, c.fields, c.times, false
		t.texts = map[string]map[string]bool{}
	}
	if c.form != t.form {
		t.form, t.why = unknown, "messages of several forms"
		return
	}
	for at := range t.fields {
		if _, has := c.fields[at]; !has {
			t.missing[at] = true
		}
	}
	for at, f := range c.fields {
		t.lists = t.lists || f.rows > 0
		if _, has := t.fields[at]; !has {
			t.missing[at] = true
		}
	}
	for at := range t.times {
		if _, has := c.times[at]; !has {
			delete(t.times, at)
		}
	}
	t.rows += t.lastRows
	t.lastRows = c.rows
	if at, _ := t.place(); at != "" {
		if t.clock[1] = c.times[at]; t.messages == 1 {
			t.clock[0] = t.clock[1]
		}
	}
	for at, v := range c.texts {
		if t.texts[at] == nil {
			t.texts[at] = map[string]bool{}
		}
		t.texts[at][v] = true
	}
}

// refusal returns the reason against a topic.
func (t *topicState) refusal() string {
	switch {
	case strings.HasPrefix(t.topic, "spBv1.0/"):
		return "Sparkplug B: see docs/fieldbus.md"
	case t.form == unknown:
		return cmp.Or(t.why, "no numbers")
	}
	return ""
}

// channels returns the channels by their place.
func (t *topicState) channels() map[string]string {
	all := map[string]string{}
	for at, f := range t.fields {
		if !t.missing[at] {
			all[at] = channelName(f.name)
		}
	}
	return all
}

// place returns the place of the time, and its unit.
func (t *topicState) place() (at, unit string) {
	for _, at := range sortedKeys(t.times) {
		return at, timeUnitOf(t.times[at])
	}
	return "", ""
}

// timeStep returns the time between the samples of a list, 0 if unknown.
func (t *topicState) timeStep() time.Duration {
	_, unit := t.place()
	ns := map[string]float64{"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1}[unit]
	if !t.lists || unit == "" || t.rows == 0 || t.clock[1] <= t.clock[0] {
		return 0
	}
	return time.Duration((t.clock[1] - t.clock[0]) * ns / float64(t.rows))
}

// stream returns the place of a text that names several machines.
func (t *topicState) stream() string {
	for _, at := range sortedKeys(t.texts) {
		if len(t.texts[at]) > 1 {
			return at
		}
	}
	return ""
}

// signature is equal for topics of one kind.
func (t *topicState) signature() string {
	at, unit := t.place()
	return fmt.Sprintf("%q %q %q %q %v", sortedKeys(t.channels()), at, unit, t.stream(), t.lists)
}

// builder collects the machines of a kind.
type builder struct {
	kind   Kind
	topics []string // of machines
	states []*topicState
}

func addTo(kinds map[string]*builder, signature string, t *topicState, topic string) {
	b := kinds[signature]
	if b == nil {
		b = &builder{kind: Kind{Sources: map[string]string{}, Stream: t.stream(), Lists: t.lists}}
		b.kind.Time, b.kind.TimeUnit = t.place()
		b.kind.TimeStep = t.timeStep()
		for at, name := range t.channels() {
			b.kind.Channels = append(b.kind.Channels, name)
			if at != "$."+name || strings.Contains(name, ".") {
				b.kind.Sources[name] = at
			}
		}
		for at := range t.missing {
			b.kind.LeftOut = append(b.kind.LeftOut, strings.TrimPrefix(at, "$.")+": not in every message")
		}
		slices.Sort(b.kind.Channels)
		slices.Sort(b.kind.LeftOut)
		kinds[signature] = b
	}
	b.topics, b.states = append(b.topics, topic), append(b.states, t)
}

// addSingles groups topics with single values by the levels before the last.
func addSingles(kinds map[string]*builder, topics map[string]*topicState, l *Layout) {
	machines := map[string][]string{} // channels
	for _, name := range sortedKeys(topics) {
		if t := topics[name]; t.form != single || t.refusal() != "" {
			continue
		}
		machine, channel := values.Split(name)
		if machine == "" {
			l.Other = append(l.Other, Other{name, "a single value without a machine: want a topic such as machine/channel"})
			continue
		}
		if err := gateway.CheckKey(channel); err != nil {
			l.Other = append(l.Other, Other{name, err.Error()})
			continue
		}
		machines[machine] = append(machines[machine], channel)
	}
	for _, machine := range sortedKeys(machines) {
		channels := machines[machine]
		signature := fmt.Sprintf("single %q", channels)
		b := kinds[signature]
		if b == nil {
			b = &builder{kind: Kind{Single: true, Channels: channels, Sources: map[string]string{}}}
			for _, c := range channels {
				if !plainName.MatchString(c) {
					b.kind.Sources[c] = fmt.Sprintf("[%q]", c)
				}
			}
			kinds[signature] = b
		}
		b.topics = append(b.topics, machine)
	}
}

// makeKind makes the patterns of the topics and the keys of the machines. Machines with unusable
// names go to l.Other.
func (b *builder) makeKind(all []string, l *Layout) Kind {
	k := &b.kind
	patterns := patternsOf(b.topics, k.Single)
	k.Topics = strings.Join(patterns, ",")
	topics, err := gateway.ParseTopics(k.Topics)
	if err != nil {
		l.Other = append(l.Other, Other{b.topics[0], err.Error()})
		return Kind{}
	}
	own, used := map[string]bool{}, b.topics[:0]
	var keys []string
	for i, topic := range b.topics {
		key, err := topics.Key(topicOf(topic, k))
		if err == nil && k.Single {
			key, _ = values.Split(key)
		}
		if err == nil && strings.Contains(key, ",") {
			err = fmt.Errorf("the key %q has a comma", names.Cut(key, 80))
		}
		if err != nil {
			l.Other = append(l.Other, Other{topic, err.Error()})
			continue
		}
		used, keys = append(used, topic), append(keys, key)
		for _, stream := range b.streams(i) {
			k.Machines = append(k.Machines, strings.TrimSuffix(key+"/"+stream, "/"))
		}
		own[topic] = true
	}
	if len(used) > 0 && hasStrangers(all, own, topics, k.Single) {
		if k.Stream != "" {
			for i := range keys {
				keys[i] += "/*"
			}
		}
		k.Keys = strings.Join(keys, ",")
	}
	k.Own = used
	return *k
}

// streams returns the machines of a topic; "" is the machine of the topic.
func (b *builder) streams(i int) []string {
	if b.kind.Stream == "" {
		return []string{""}
	}
	return sortedKeys(b.states[i].texts[b.kind.Stream])
}

// topicOf returns a topic of a machine.
func topicOf(machine string, k *Kind) string {
	if k.Single {
		return machine + "/" + k.Channels[0]
	}
	return machine
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
