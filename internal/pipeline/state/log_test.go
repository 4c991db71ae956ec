package state

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// entry is a message of a random log before encoding. The model reads the entry; the
// machine reads the message built from the entry.
type entry struct {
	key    string
	number uint64 // Eusn-Seq; 0 = none
	life   string // Eusn-Incarnation
	rows   []sample
	many   bool // each row names its stream
	end    bool // Eusn-End
	bad    bool // unreadable for every reader
	lost   bool // input may be missing before this message
	event  *wire.IdleEvent

	promotion *wire.Promotion
}

type sample struct {
	stream string
	value  float32
	end    bool
}

// drawn reads a log's choices from bytes, so that a fuzzer can change single choices.
// The log ends after the last byte.
type drawn struct{ b []byte }

// pickBelow is a number below n.
func (d *drawn) pickBelow(n int) int {
	if len(d.b) == 0 {
		return 0
	}
	v := int(d.b[0]) % n
	d.b = d.b[1:]
	return v
}

// drawLog makes messages of few keys and streams, so that the messages interact: in
// order, repeated, too early, missing, in new incarnations, damaged, of many streams,
// and end events for silent streams, some late or repeated.
func drawLog(b []byte) []entry {
	d := &drawn{b}
	var log []entry
	next, life := map[string]uint64{}, map[string]int{}
	value, promoted := float32(0), uint64(0)
	for len(d.b) > 0 && len(log) < 400 {
		e := entry{key: string(rune('a' + d.pickBelow(3)))}
		kind := d.pickBelow(20)
		switch {
		case kind == 0:
			e.event = drawEvent(d, uint64(len(log)))
			e.key = wire.IdlePrefix + "0"
			log = append(log, e)
			continue
		case kind == 4:
			e.promotion = drawPromotion(d, &promoted)
			e.key = wire.IdlePrefix + "0"
			log = append(log, e)
			continue
		case kind == 1:
			e.bad = true
		case kind == 2:
			e.lost = true
		case kind == 3:
			life[e.key]++
			next[e.key] = 0
		}
		e.life = strings.Repeat("i", life[e.key])
		if e.key != "c" { // c's producer does not number
			step := [...]uint64{1, 1, 1, 1, 1, 2, 3, 0}[d.pickBelow(8)]
			if step == 0 { // an earlier message, possibly a missing message
				e.number = uint64(1 + d.pickBelow(int(next[e.key])+1))
			} else {
				next[e.key] += step
				e.number = next[e.key]
			}
		}
		e.many = d.pickBelow(3) == 0
		for range d.pickBelow(4) {
			value++
			s := sample{e.key, value, d.pickBelow(5) == 0}
			if e.many {
				s.stream = string(rune('x' + d.pickBelow(3)))
			}
			e.rows = append(e.rows, s)
		}
		e.end = d.pickBelow(6) == 0
		log = append(log, e)
	}
	return log
}

// drawPromotion returns the next promotion, a repeated promotion, or a promotion after
// missing promotions.
func drawPromotion(d *drawn, last *uint64) *wire.Promotion {
	p := &wire.Promotion{Number: 1 + *last + uint64(d.pickBelow(2)), Now: d.pickBelow(4) == 0, Who: "a"}
	if d.pickBelow(4) == 0 {
		p.Number = 1 + uint64(d.pickBelow(int(*last)+1))
	}
	*last = max(*last, p.Number)
	if p.Number%5 != 0 { // every fifth promotion is a rollback to the job's first readout
		p.Readout = fmt.Sprintf("%032x", p.Number)
	}
	return p
}

func drawEvent(d *drawn, before uint64) *wire.IdleEvent {
	e := &wire.IdleEvent{After: before - min(before, uint64(d.pickBelow(8)))}
	for range 1 + d.pickBelow(4) {
		key := string(rune('a' + d.pickBelow(3)))
		if d.pickBelow(3) == 0 {
			e.Gaps = append(e.Gaps, key)
			continue
		}
		n := wire.StreamName{Key: key, Stream: key, Forget: d.pickBelow(3) == 0}
		if d.pickBelow(2) == 0 {
			n.Stream = string(rune('x' + d.pickBelow(3)))
		}
		e.Streams = append(e.Streams, n)
	}
	return e
}

// encodeLog is a log as messages 1 and on of an input.
func encodeLog(t testing.TB, log []entry) []Message {
	t.Helper()
	enc, err := codec.NewInputEncoder([]string{"v"}, codec.InputOptions{Ends: true})
	if err != nil {
		t.Fatal(err)
	}
	byStream, err := codec.NewInputEncoder([]string{"v"}, codec.InputOptions{Ends: true, Keys: true})
	if err != nil {
		t.Fatal(err)
	}
	var out []Message
	for i, e := range log {
		m := Message{Seq: uint64(i + 1), Stored: int64(i+1) * 1000, Key: e.key, Header: wire.Header{}, Lost: e.lost}
		set := func(name, value string) {
			if value != "" {
				m.Header[name] = []string{value}
			}
		}
		if e.number > 0 {
			set(wire.HeaderSeq, fmt.Sprint(e.number))
		}
		set(wire.HeaderIncarnation, e.life)
		if e.end {
			set(wire.HeaderEnd, "true")
		}
		switch {
		case e.event != nil:
			set(wire.HeaderKind, wire.KindIdle)
			m.Data, err = json.Marshal(e.event)
		case e.promotion != nil:
			set(wire.HeaderKind, wire.KindPromote)
			m.Data, err = json.Marshal(wire.PromoteEvent{Promotion: *e.promotion})
		case e.bad:
			m.Data = []byte("no Arrow")
		case e.many && len(e.rows) > 0:
			m.Data, err = byStream.Encode(batchOf(e))
		default:
			m.Data, err = enc.Encode(batchOf(e))
		}
		if err != nil {
			t.Fatal(err)
		}
		m.Data = append([]byte(nil), m.Data...)
		out = append(out, m)
	}
	return out
}

func batchOf(e entry) *codec.Batch {
	b := &codec.Batch{Rows: len(e.rows)}
	index := map[string]int32{}
	for _, s := range e.rows {
		b.X, b.Ends = append(b.X, s.value), append(b.Ends, s.end)
		if !e.many {
			continue
		}
		if _, known := index[s.stream]; !known {
			index[s.stream] = int32(len(b.Keys))
			b.Keys = append(b.Keys, s.stream)
		}
		b.Key = append(b.Key, index[s.stream])
	}
	return b
}
