package outbox

import (
	"cmp"
	"container/list"
	"encoding/binary"
	"slices"
)

// Limits of the remembered state. A device has fewer messages in flight than Window, so
// a repeat is always among the newest of its session.
const (
	Window      = 256     // messages of a session, unless the session is named with another number
	maxSessions = 100_000 // beyond, the session silent longest is forgotten
	maxSeen     = 8 << 20 // parts of messages; beyond, likewise: a gigabyte of memory, and 200 MB in a segment
)

// Origin identifies a part of a device's message: the part of one stream.
type Origin struct {
	Session string // of the device; empty: the message has no identity
	ID      uint64 // packet id, or hash of a key
	Sum     uint64 // hash of the whole message
	Part    uint64 // hash of the stream's key
	Again   bool   // the device marks it as a possible repeat
	Kept    bool   // the device reuses the id only after Release (QoS 2)
}

// Seen is an accepted part of a device's message. Batch holds it; nil: the server has
// acknowledged the batch.
type Seen struct {
	id, sum, part uint64
	n             uint64 // number of its message in the session
	gone          bool
	untold        bool // certainly no device was answered
	held          bool // its samples are incomplete
	kept          bool // its id has no later message; only in this run, the log does not store it
	Batch         *Batch
}

// Told records that a device may have been answered: from now on the device may reuse
// the id.
func (e *Seen) Told() { e.untold = false }

// Sessions remembers the newest messages of each device.
type Sessions struct {
	all    map[string]*session
	recent list.List // of *session, the most recent in front
	window map[string]int
	live   int // parts of all sessions
	most   int
}

type session struct {
	name  string
	at    *list.Element
	order []*Seen // oldest first, including removed entries
	byID  map[uint64][]*Seen
	live  int    // parts
	n     uint64 // given last
	// reused is 1 for a message whose id was used before within the window, then counts
	// messages until this message is out of the window; 0: no such message. Until then an
	// acknowledged message is no proof.
	reused uint64
}

// NewSessions returns an empty set. The set keeps window messages of the named
// sessions, and Window of all other sessions.
func NewSessions(window map[string]int) *Sessions {
	return &Sessions{all: map[string]*session{}, window: window, most: maxSeen}
}

// Find looks for a message that a device marks as a repeat. known is false if no part
// with that id and content was accepted. Otherwise seen is the wanted part, or nil if
// it was not accepted.
//
// An acknowledged message counts only while the device's ids are reliable: the device
// has used another id, and no id twice within the window. Otherwise the repeat may be
// of a later message, with the same id and content, that never arrived. A message
// certainly without an answer, or with an id kept by the device, has no later message.
func (t *Sessions) Find(o Origin) (seen *Seen, known bool) {
	s := t.all[o.Session]
	if s == nil {
		return nil, false
	}
	counts := s.reused == 0 && (len(s.byID) > 1 || t.window[o.Session] > 0)
	for _, e := range s.byID[o.ID] {
		if e.sum != o.Sum || e.Batch == nil && !e.untold && !e.kept && !counts {
			continue
		}
		known = true
		if e.part == o.Part {
			return e, true
		}
	}
	return nil, known
}

// Other reports whether the id was used for another content.
func (t *Sessions) Other(o Origin) bool {
	s := t.all[o.Session]
	if s == nil {
		return false
	}
	for _, e := range s.byID[o.ID] {
		if e.sum != o.Sum {
			return true
		}
	}
	return false
}

// Add remembers a part of a new message, held by b.
func (t *Sessions) Add(o Origin, b *Batch) *Seen {
	s := t.sessionOf(o.Session)
	before := s.live
	limit := cmp.Or(t.window[o.Session], Window)
	if s.reused > 0 && len(s.byID[o.ID]) == 0 {
		s.reused = (s.reused + 1) % uint64(limit+1)
	}
	for _, e := range s.byID[o.ID] {
		if e.sum != o.Sum || e.part == o.Part {
			// Ids used in turn also repeat, after all other ids. And while a device has
			// used only one id, a marked repeat may be real.
			may := o.Again && e.sum == o.Sum && len(s.byID) == 1
			if !may && s.n-e.n < uint64(max(Window, limit/2)) {
				s.reused = 1
			}
			s.dropSeen(o.ID)
			break
		}
	}
	e := &Seen{id: o.ID, sum: o.Sum, part: o.Part, kept: o.Kept, Batch: b}
	s.addSeen(e)
	s.trimSeen(limit, t.most)
	for t.live += s.live - before; t.live > t.most && len(t.all) > 1; {
		t.Forget(t.recent.Back().Value.(*session).name)
	}
	return e
}

// Release records that a device may reuse an id.
func (t *Sessions) Release(session string, id uint64) {
	if s := t.all[session]; s != nil {
		for _, e := range s.byID[id] {
			e.kept = false
		}
	}
}

// Forget forgets a session because the device begins a new session. Forget reports
// whether a session existed.
func (t *Sessions) Forget(name string) bool {
	s := t.all[name]
	if s == nil {
		return false
	}
	for _, e := range s.order {
		e.gone = true // also for Adopt
	}
	t.recent.Remove(s.at)
	delete(t.all, name)
	t.live -= s.live
	return true
}

// Names are the sessions, in no order.
func (t *Sessions) Names() []string {
	var names []string
	for n := range t.all {
		names = append(names, n)
	}
	return names
}

func (t *Sessions) sessionOf(name string) *session {
	s := t.all[name]
	if s != nil {
		t.recent.MoveToFront(s.at)
		return s
	}
	for len(t.all) >= maxSessions {
		t.Forget(t.recent.Back().Value.(*session).name)
	}
	s = &session{name: name, byID: map[uint64][]*Seen{}}
	s.at = t.recent.PushFront(s)
	t.all[name] = s
	return s
}

func (s *session) addSeen(e *Seen) {
	if earlier := s.byID[e.id]; len(earlier) > 0 {
		e.n = earlier[0].n
	} else {
		s.n++
		e.n = s.n
	}
	s.order = append(s.order, e)
	s.byID[e.id] = append(s.byID[e.id], e)
	s.live++
}

// dropSeen forgets an id.
func (s *session) dropSeen(id uint64) {
	for _, e := range s.byID[id] {
		e.gone = true
		s.live--
	}
	delete(s.byID, id)
}

// forgetBatches forgets the messages of lost batches.
func (t *Sessions) forgetBatches(lost map[uint64]*Batch) {
	for _, s := range t.all {
		for _, e := range s.order {
			if e.gone || e.held || e.Batch == nil || lost[e.Batch.id] != e.Batch {
				continue
			}
			e.gone = true
			s.live--
			t.live--
			s.byID[e.id] = slices.DeleteFunc(s.byID[e.id], func(o *Seen) bool { return o == e })
			if len(s.byID[e.id]) == 0 {
				delete(s.byID, e.id)
			}
		}
	}
}

// trimSeen forgets the oldest messages beyond the newest limit messages, and beyond most
// parts.
func (s *session) trimSeen(limit, most int) {
	for len(s.byID) > limit || s.live > most && len(s.byID) > 1 {
		if e := s.order[0]; !e.gone {
			s.dropSeen(e.id)
		}
		s.order = s.order[1:]
	}
	for len(s.order) > 0 && s.order[0].gone {
		s.order = s.order[1:]
	}
	if len(s.order) > 2*s.live+Window { // removed entries in the middle
		kept := s.order[:0:0]
		for _, e := range s.order {
			if !e.gone {
				kept = append(kept, e)
			}
		}
		s.order = kept
	}
}

// encodeSessions writes the remembered state. encodeSessions skips held messages, and
// messages of batches not in the log yet: these messages follow with the batch.
func (t *Sessions) encodeSessions(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(t.all)))
	for el := t.recent.Back(); el != nil; el = el.Prev() {
		s := el.Value.(*session)
		var body []byte
		n := 0
		for _, e := range s.order {
			if e.gone || e.Batch != nil && e.Batch.id == 0 {
				continue
			}
			id := uint64(0)
			if e.Batch != nil {
				id = e.Batch.id
			}
			n++
			for _, v := range []uint64{e.id, e.sum, e.part, id} {
				body = binary.AppendUvarint(body, v)
			}
		}
		dst = binary.AppendUvarint(appendText(dst, s.name), s.reused)
		dst = append(binary.AppendUvarint(dst, uint64(n)), body...)
	}
	return dst
}

// decodeSessions replaces the remembered state. batch finds waiting batches. A message
// of a lost batch is not remembered: the server may not have the message.
func (t *Sessions) decodeSessions(r *reader, batch func(id uint64) (b *Batch, lost bool)) {
	t.all, t.live = map[string]*session{}, 0
	t.recent.Init()
	for range r.readCount() {
		s := t.sessionOf(r.readText())
		s.reused = r.u64()
		for range r.readCount() {
			e := &Seen{id: r.u64(), sum: r.u64(), part: r.u64()}
			if id := r.u64(); id != 0 {
				var lost bool
				if e.Batch, lost = batch(id); lost {
					continue
				}
				if e.Batch != nil {
					e.Batch.seen = append(e.Batch.seen, e)
				}
			}
			s.addSeen(e)
		}
		t.live += s.live
	}
}
