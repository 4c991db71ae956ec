//go:build linux

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// input is one message of a key in its producer's plan. Its payload is a function of the
// other fields.
type input struct {
	key     string
	seq     uint64 // Eusn-Seq
	x       []float32
	times   []int64
	ends    []bool   // nil if the model ignores marks
	ids     []string // the stream of each row of a gateway; else nil
	damaged bool     // sent with half of its bytes
	reused  *input   // other content of a restarted producer under the same number, or nil

	incarnation string // of the numbers of a gateway
}

func (m *input) rows() int { return len(m.times) }

// streamOf returns the stream of sample row i.
func (m *input) streamOf(i int) string {
	if m.ids == nil {
		return m.key
	}
	return m.ids[i]
}

// send is one publication of a message.
type send struct {
	seq    uint64
	repeat bool // a copy was sent before
	late   bool // out of order
	dies   bool // the producer dies before the answer; a new producer resends the message, or other content under its number
}

// plan is the traffic of all producers, drawn from a seed: the messages of each key and
// their order.
type plan struct {
	keys     []string
	messages map[string][]*input // by seq-1
	sends    map[string][]send
	encoders map[codec.InputOptions]*codec.InputEncoder
	marked   bool
	traffic  traffic
}

// traffic sets the kinds and rates of producer faults.
type traffic struct {
	Keys, Messages int     // per key
	Gateways       int     // every n-th key has several streams; 0 = none
	Repeat         float64 // share of repeated messages, at once or much later
	Late           float64 // share of messages delayed by up to LateBy messages
	LateBy         int
	Missing        float64 // share of messages never sent
	Damaged        float64 // share of undecodable messages
	Deaths         float64 // share of messages whose producer dies between sending and the answer
	Reuse          float64 // share of the deaths after which a new producer reuses the number for other content
	Unnumbered     bool    // no message has a number: each stored copy counts
	Rows           int     // most rows in a message; 0 = 8
}

const channels = 2

var channelNames = []string{"x", "y"}

// newPlan draws a plan. marked: rows have end marks.
func newPlan(seed uint64, t traffic, marked bool) *plan {
	p := &plan{messages: map[string][]*input{}, sends: map[string][]send{}, encoders: map[codec.InputOptions]*codec.InputEncoder{}, marked: marked, traffic: t}
	for k := range t.Keys {
		key := fmt.Sprintf("dev%03d", k)
		rng := rand.New(rand.NewPCG(seed, uint64(k)))
		streams := 1
		if t.Gateways > 0 && k%t.Gateways == 0 {
			key, streams = fmt.Sprintf("gw%03d", k), 3
		}
		p.keys = append(p.keys, key)
		for range t.Messages {
			p.addMessage(rng, key, streams).damaged = rng.Float64() < t.Damaged
		}
		p.sends[key] = orderSends(rng, t)
		p.drawDeaths(rng, key)
	}
	return p
}

// drawDeaths draws the dying producers, and the content of their successors under the
// same number: the same number of rows, with other samples.
func (p *plan) drawDeaths(rng *rand.Rand, key string) {
	if p.traffic.Deaths == 0 {
		return
	}
	for i := range p.sends[key] {
		s := &p.sends[key][i]
		m := p.messages[key][s.seq-1]
		if s.repeat || m.damaged || rng.Float64() >= p.traffic.Deaths {
			continue
		}
		s.dies = true
		if rng.Float64() < p.traffic.Reuse {
			o := *m
			o.x = slices.Clone(m.x)
			for k := range o.x {
				o.x[k] = 4*rng.Float32() - 2
			}
			m.reused = &o
		}
	}
}

// addMessage draws a key's next message: 1 to 8 rows, an end mark on about one row in
// four.
func (p *plan) addMessage(rng *rand.Rand, key string, streams int) *input {
	m := &input{key: key, seq: uint64(len(p.messages[key]) + 1)}
	for range 1 + rng.IntN(cmp.Or(p.traffic.Rows, 8)) {
		id := ""
		if streams > 1 {
			id = fmt.Sprintf("%s-%d", key, rng.IntN(streams))
		}
		p.addRow(rng, m, id, rng.IntN(4) == 0)
	}
	p.messages[key] = append(p.messages[key], m)
	return m
}

// addRow adds a sample to m. id is empty except for gateways.
func (p *plan) addRow(rng *rand.Rand, m *input, id string, end bool) {
	for range channels {
		m.x = append(m.x, 4*rng.Float32()-2)
	}
	if m.seq%16 >= 12 { // the first channel's sensor is stuck
		m.x[len(m.x)-channels] = 0.5
	}
	m.times = append(m.times, int64(1_700_000_000+m.seq)*1e9+int64(m.rows()))
	if p.marked {
		m.ends = append(m.ends, end)
	}
	if id != "" {
		m.ids = append(m.ids, id)
	}
}

// orderSends draws the order of a key's messages.
func orderSends(rng *rand.Rand, t traffic) []send {
	type placed struct {
		at float64
		send
	}
	var all []placed
	for i := range t.Messages {
		s := placed{float64(i), send{seq: uint64(i + 1)}}
		if rng.Float64() < t.Missing {
			continue
		}
		if rng.Float64() < t.Late {
			s.at += float64(1+rng.IntN(t.LateBy)) + .5
			s.late = true
		}
		all = append(all, s)
		if rng.Float64() < t.Repeat {
			again := placed{s.at + .1, send{seq: s.seq, repeat: true}}
			if rng.IntN(2) == 0 {
				again.at += float64(rng.IntN(t.Messages)) // much later
			}
			all = append(all, again)
		}
	}
	slices.SortStableFunc(all, func(a, b placed) int {
		switch {
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		}
		return 0
	})
	sends := make([]send, len(all))
	for i, s := range all {
		sends[i] = s.send
	}
	return sends
}

// findMessage returns the message that a producer numbered seq; nil if there is none.
func (p *plan) findMessage(key string, seq uint64) *input {
	if all := p.messages[key]; seq >= 1 && seq <= uint64(len(all)) {
		return all[seq-1]
	}
	return nil
}

// payload encodes a message; the same message gives the same bytes. One
// goroutine at a time.
func (p *plan) payload(m *input) ([]byte, error) {
	b := codec.Batch{Rows: m.rows(), X: m.x, Times: m.times, Ends: m.ends}
	for _, id := range m.ids {
		k := slices.Index(b.Keys, id)
		if k < 0 {
			k = len(b.Keys)
			b.Keys = append(b.Keys, id)
		}
		b.Key = append(b.Key, int32(k))
	}
	o := codec.InputOptions{Times: true, Ends: m.ends != nil, Keys: m.ids != nil}
	enc := p.encoders[o]
	if enc == nil {
		var err error
		if enc, err = codec.NewInputEncoder(channelNames, o); err != nil {
			return nil, err
		}
		p.encoders[o] = enc
	}
	data, err := enc.Encode(&b)
	if err != nil {
		return nil, err
	}
	if m.damaged {
		data = data[:len(data)/2]
	}
	return bytes.Clone(data), nil
}

// closingRows returns the message after a key's last: rows that end every open sequence
// of the key's streams, so that a prediction shows each final state.
func (t *truth) closingRows(key string, seed uint64) *input {
	rng := rand.New(rand.NewPCG(seed, 1<<32))
	m := &input{key: key, seq: uint64(len(t.plan.messages[key]) + 1)}
	p := t.keys[key]
	if p == nil || len(p.streams) == 0 {
		t.plan.addRow(rng, m, "", true)
		return m
	}
	gateway := t.plan.messages[key][0].ids != nil // the key's messages name a stream in each row
	for _, id := range slices.Sorted(maps.Keys(p.streams)) {
		n := t.countOpenRows(p.streams[id])
		for i := range n {
			column := ""
			if gateway {
				column = id
			}
			t.plan.addRow(rng, m, column, i == n-1)
		}
	}
	return m
}

// countOpenRows returns the number of samples that close every sequence with samples of
// the stream; with end marks, one marked sample is enough.
func (t *truth) countOpenRows(s *track) int {
	switch p := t.model.Policy; p.Kind {
	case reservoir.Count:
		return p.Length - (s.n - s.start)
	case reservoir.Window:
		return p.Length + p.Hop - s.n%p.Hop
	default:
		return 1
	}
}
