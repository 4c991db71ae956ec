package state

import (
	"maps"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// made is a prediction: position, and covered samples.
type made struct {
	stream  string
	seq     uint64
	row     uint32
	flags   outcome.Flag
	at      uint64 // input message
	samples uint64 // a hash of the samples, in order
	readout string
}

func hashSamples(h uint64, x ...float32) uint64 {
	for _, v := range x {
		h = (h ^ uint64(v)) * 0x100000001b3
	}
	return h
}

// model computes the expected results of a log under the policy marked: messages in
// lists, samples in lists, nothing reused, no digest, no rows. The model was written
// from the package documentation of pipeline, not from the machine.
type model struct {
	early   int // a prediction every `early` samples; 0 = none
	reorder int // held messages per key
	keys    map[string]*modelKey
	lossy   bool
	at      uint64
	number  uint64 // of the last promotion
	readout string // readout for new sequences
	out     []made
	dead    []uint64
}

type modelKey struct {
	life    string
	last    uint64
	waiting map[uint64]waiting
	lost    outcome.Flag // of missing and unreadable messages: any new stream may have begun in one
	flags   outcome.Flag
	streams map[string]*modelStream
	heard   uint64
}

type waiting struct {
	entry
	at uint64
}

type modelStream struct {
	samples []float32 // of the open sequence
	readout string    // readout at the sequence's beginning
	flags   outcome.Flag
	since   outcome.Flag // flags raised after the last sample
	seq     uint64       // of the last sample
	row     uint32
	heard   uint64
}

func (m *model) takeEntry(e entry) {
	m.at++
	if e.lost {
		m.lossy = true
		for _, k := range m.keys {
			k.flags |= outcome.FlagGap
			if k.last > 0 {
				continue // the message numbers will show a gap
			}
			k.lost |= outcome.FlagGap
			for _, s := range k.streams {
				s.since |= outcome.FlagGap
			}
		}
	}
	if e.event != nil {
		m.takeEvent(e)
		return
	}
	if e.promotion != nil {
		m.takePromotion(*e.promotion)
		return
	}
	k := m.keys[e.key]
	if k == nil {
		k = &modelKey{streams: map[string]*modelStream{}, waiting: map[uint64]waiting{}}
		m.keys[e.key] = k
		if m.lossy && e.number == 0 {
			k.lost = outcome.FlagGap
		}
	}
	k.heard = m.at
	m.placeMessage(k, e)
	if len(k.streams) == 0 {
		m.findStream(k, e.key)
	}
}

// placeMessage uses, holds or drops a message.
func (m *model) placeMessage(k *modelKey, e entry) {
	if e.number == 0 {
		m.useMessage(k, waiting{e, m.at}, 0)
		return
	}
	if e.life != k.life {
		for len(k.waiting) > 0 {
			m.giveUp(k)
		}
		if k.last > 0 {
			k.raiseFlag(outcome.FlagGap)
		}
		k.life, k.last = e.life, 0
	}
	_, again := k.waiting[e.number]
	switch {
	case again || e.number <= k.last:
	case e.number == k.last+1:
		k.last++
		m.useMessage(k, waiting{e, m.at}, 0)
		m.useWaiting(k, outcome.FlagReordered)
	default:
		k.waiting[e.number] = waiting{e, m.at}
		for len(k.waiting) > m.reorder {
			m.giveUp(k)
		}
	}
}

// giveUp continues as if the missing message before the first held message had come.
func (m *model) giveUp(k *modelKey) {
	k.raiseFlag(outcome.FlagGap)
	k.last = slices.Min(slices.Collect(maps.Keys(k.waiting))) - 1
	m.useWaiting(k, 0)
}

func (m *model) useWaiting(k *modelKey, why outcome.Flag) {
	for {
		w, there := k.waiting[k.last+1]
		if !there {
			return
		}
		k.last++
		delete(k.waiting, k.last)
		m.useMessage(k, w, why)
	}
}

func (k *modelKey) raiseFlag(f outcome.Flag) {
	k.flags, k.lost = k.flags|f, k.lost|f
	for _, s := range k.streams {
		s.since |= f
	}
}

func (m *model) findStream(k *modelKey, name string) *modelStream {
	s := k.streams[name]
	if s == nil {
		s = &modelStream{since: k.flags | k.lost}
		k.streams[name] = s
	}
	s.heard = m.at
	return s
}

// useMessage passes a message's samples to their streams. why is a flag of its samples.
func (m *model) useMessage(k *modelKey, w waiting, why outcome.Flag) {
	if w.bad {
		k.raiseFlag(outcome.FlagPoisonSkipped)
		m.dead = append(m.dead, w.at)
		return
	}
	var names []string // in order of their first rows
	for _, r := range w.rows {
		if !slices.Contains(names, r.stream) {
			names = append(names, r.stream)
		}
	}
	if len(w.rows) == 0 && w.end { // all open sequences
		names = slices.Sorted(maps.Keys(k.streams))
	}
	for _, name := range names {
		s := m.findStream(k, name)
		s.since |= why
		s.flags |= s.since
		last := -1
		for i, r := range w.rows {
			if r.stream == name {
				last = i
			}
		}
		for i, r := range w.rows {
			if r.stream != name {
				continue
			}
			if len(s.samples) == 0 {
				s.readout = m.readout
			}
			s.samples = append(s.samples, r.value)
			s.seq, s.row = w.number, uint32(i)
			m.addPrediction(name, s, r.end || w.end && i == last)
		}
		if len(w.rows) == 0 && len(s.samples) > 0 {
			m.closeSequence(name, s)
		}
		if len(w.rows) > 0 {
			s.since = 0
		}
	}
	k.flags = 0
}

func (m *model) addPrediction(name string, s *modelStream, end bool) {
	switch {
	case end:
		m.closeSequence(name, s)
	case m.early > 0 && len(s.samples)%m.early == 0:
		m.emitPrediction(name, s, outcome.FlagEarly)
	}
}

func (m *model) closeSequence(name string, s *modelStream) {
	m.emitPrediction(name, s, 0)
	s.samples, s.flags = nil, 0
}

func (m *model) emitPrediction(name string, s *modelStream, more outcome.Flag) {
	m.out = append(m.out, made{name, s.seq, s.row, s.flags | more, m.at, hashSamples(0, s.samples...), s.readout})
}

func (m *model) takePromotion(p wire.Promotion) {
	if p.Number <= m.number {
		return
	}
	m.number, m.readout = p.Number, p.Readout
	for _, k := range m.keys {
		for _, s := range k.streams {
			if p.Now {
				s.readout = p.Readout
			}
		}
	}
}

func (m *model) takeEvent(e entry) {
	for _, key := range e.event.Gaps {
		if k := m.keys[key]; k != nil && k.heard <= e.event.After {
			for len(k.waiting) > 0 {
				m.giveUp(k)
			}
		}
	}
	for _, n := range e.event.Streams {
		k := m.keys[n.Key]
		if k == nil || len(k.waiting) > 0 || k.streams[n.Stream] == nil || k.streams[n.Stream].heard > e.event.After {
			continue
		}
		s := k.streams[n.Stream]
		if len(s.samples) > 0 {
			s.flags |= s.since | k.flags | outcome.FlagIdle
			m.closeSequence(n.Stream, s)
		}
		if n.Forget {
			delete(k.streams, n.Stream)
			if len(k.streams) == 0 {
				delete(m.keys, n.Key)
			}
		}
	}
}
