package pipeline

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// maxIncarnation is the longest Eusn-Incarnation, bytes: every source keeps
// its own, and a UUID or a time takes less than half of it.
const maxIncarnation = 128

var errStreams = errors.New("pipeline: out of streams")

// ingest takes one message into the batch: its samples become rows and runs,
// its predictions places in the answer. A message that cannot be used becomes
// a dead letter; the error is only for what must stop the stage. While a
// restart replays, states advance and nothing is answered.
func (s *shard) ingest(b *batch, j job) error {
	b.messages++
	return s.yield(j.part, s.input(b, j))
}

func (s *shard) input(b *batch, j job) error {
	p := j.part
	if j.seq <= p.done || p.failed() {
		p.waiting.Add(-1)
		return nil // an ordered consumer never goes back; if one did, the state must not
	}
	before := p.done
	p.done, p.doneTime = j.seq, j.stored
	a := b.answer(p)
	a.inSeq, a.inTime = j.seq, j.stored
	a.messages++
	// A digest is of the state after one message: the batch must end with it.
	b.full = b.full || j.seq == p.verifyAt
	m := message{b: b, p: p, inSeq: j.seq, stored: j.stored, silent: j.seq <= p.replayTo}
	if m.silent {
		s.counters.replayed.Add(1)
		s.replayed(p, j.seq)
	} else {
		b.used++
		p.sinceSnapshot++
	}
	if j.lost || p.losses.covers(j.seq) {
		s.follows(&m, before)
	}
	if !utf8.ValidString(j.key) { // no reader could decode a prediction that names it
		s.reject(&m, j, wire.ReasonKey, fmt.Errorf("pipeline: key %q, the subject's last token, is not UTF-8", j.key))
		return nil
	}
	if j.header.Get(wire.HeaderKind) == wire.KindIdle {
		return s.silence(&m, j)
	}
	var isNew bool
	m.src, isNew = p.source(j.key)
	m.src.heardIn, m.src.heardTime = j.seq, p.now
	if err := s.arrive(&m, j, isNew); err != nil {
		return err
	}
	return s.anchor(&m)
}

// anchor gives a key without streams one of its name, so that MaxStreams
// bounds keys too. A message that opened none must not stop a partition full
// of open sequences: its key is forgotten at once.
func (s *shard) anchor(m *message) error {
	if len(m.src.streams) > 0 {
		return nil
	}
	_, err := s.stream(m.p, m.src, m.src.key)
	if errors.Is(err, errStreams) && len(m.src.held) == 0 {
		m.p.forgetSource(m.src)
		s.counters.forgotten.Add(1)
		s.warn("no room to remember a key without open sequences", "partition", m.p.id, "key", m.src.key)
		return nil
	}
	return err
}

// arrive puts a message in its place among its key's: used, held or dropped.
func (s *shard) arrive(m *message, j job, isNew bool) error {
	src := m.src
	if err := wire.SpellHeaders(j.header); err != nil {
		return s.poison(m, j, wire.ReasonHeader, err)
	}
	text := j.header.Get(wire.HeaderSeq)
	if text == "" {
		src.partial = src.partial || isNew && m.p.lossy
		return s.use(m, j, 0)
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || n == 0 {
		return s.poison(m, j, wire.ReasonHeader, fmt.Errorf("pipeline: header %s is %q, want a number from 1 to 2^63-1", wire.HeaderSeq, text))
	}
	inc := j.header.Get(wire.HeaderIncarnation)
	if len(inc) > maxIncarnation {
		return s.poison(m, j, wire.ReasonHeader, fmt.Errorf("pipeline: header %s has %d bytes, want at most %d", wire.HeaderIncarnation, len(inc), maxIncarnation))
	}
	if err := s.incarnate(m, inc); err != nil {
		return err
	}
	switch {
	case s.noDedup:
	case n <= src.last || src.holds(n):
		if !m.silent {
			m.b.used--
			s.counters.duplicates.Add(1)
			s.compare(src, n, j)
		}
		return nil
	case n > src.last+1:
		return s.park(m, j, n)
	}
	src.took(n, j.data) // even if the message turns out to be unusable: it has arrived
	if err := s.use(m, j, n); err != nil {
		return err
	}
	return s.drain(m, codec.FlagReordered)
}

// compare tells of a number that comes again with other content: nobody repeats
// that message, somebody counts anew under an incarnation that has these
// numbers behind it, or two count under one key. What they send is dropped.
func (s *shard) compare(src *source, n uint64, j job) {
	if !src.contradicts(n, j.data) {
		return
	}
	s.counters.contradictions.Add(1)
	if !src.told {
		src.told = true
		s.warn("a message of this key came again with other content, and is dropped as a repeat: a producer that counts anew must say so ("+wire.HeaderIncarnation+"), and a key has one producer; told once for each key", "partition", src.part.id, "key", src.key, "number", n, "input", j.seq)
	}
}

// use gives a message whose turn it is to its streams, or to the dead
// letters.
func (s *shard) use(m *message, j job, seq uint64) error {
	m.seq, m.end = seq, endsAfter(j.header)
	if why, err := s.examine(m, j); err != nil {
		return s.poison(m, j, why, err)
	}
	if err := s.spread(m); err != nil {
		return err
	}
	m.src.flags = 0
	if !m.silent {
		m.b.rows += s.in.Rows
		m.b.bytes += len(j.data)
	}
	return nil
}

// examine decodes a message into s.in and says what is wrong with it.
func (s *shard) examine(m *message, j job) (wire.Reason, error) {
	if why, err := checkCRC(j.header, j.data); err != nil {
		return why, err
	}
	if err := checkEnd(j.header); err != nil {
		return wire.ReasonHeader, err
	}
	if why, err := s.decode(m.b, j); err != nil {
		return why, err
	}
	return wire.ReasonStreams, s.admits(m)
}

func checkCRC(h nats.Header, data []byte) (wire.Reason, error) {
	text := h.Get(wire.HeaderCRC)
	if text == "" {
		return 0, nil
	}
	want, err := strconv.ParseUint(text, 16, 32)
	if err != nil {
		return wire.ReasonHeader, fmt.Errorf("pipeline: header %s is %q, want up to 8 hex digits", wire.HeaderCRC, text)
	}
	if got := codec.CRC(data); got != uint32(want) {
		return wire.ReasonChecksum, fmt.Errorf("pipeline: payload has CRC-32C %08x, header %s says %08x: damaged on the way", got, wire.HeaderCRC, want)
	}
	return 0, nil
}

// endsAfter reads the end mark.
func endsAfter(h nats.Header) bool {
	text := h.Get(wire.HeaderEnd)
	return text == "1" || strings.EqualFold(text, "true")
}

// checkEnd refuses an end mark that is no known word: to take it for no would
// join two sequences into one.
func checkEnd(h nats.Header) error {
	text := h.Get(wire.HeaderEnd)
	if endsAfter(h) || text == "" || text == "0" || strings.EqualFold(text, "false") {
		return nil
	}
	return fmt.Errorf("pipeline: header %s is %q, want true, false, 1 or 0", wire.HeaderEnd, text)
}

// decode fills s.in from the payload and checks what the codec cannot know.
// The samples of a message of one stream go where the engine reads them. Those
// of many streams are sorted on the way there, from room of their own, which a
// message is given if the one before it had many.
func (s *shard) decode(b *batch, j job) (wire.Reason, error) {
	start := time.Now()
	defer func() { s.counters.decodeNS.Add(int64(time.Since(start))) }()
	if len(s.in.Keys) > 0 {
		s.in.X = s.mixed
	} else {
		s.in.X = b.x[len(b.x):]
	}
	if len(j.data) == 0 {
		return wire.ReasonMalformed, errors.New("pipeline: empty message, want an Arrow record batch (one without rows to close a sequence)")
	}
	if err := s.decoder.Decode(j.data, &s.in); err != nil {
		return wire.ReasonOf(err), err
	}
	if s.policy.Kind == reservoir.Gap && s.in.Rows > 0 {
		if len(s.in.Times) == 0 || slices.Contains(s.in.Times, codec.NoTime) {
			return wire.ReasonTime, errors.New("pipeline: the model closes sequences by silence, want a ts field without nulls")
		}
	}
	if len(s.in.Missing) == 0 {
		return wire.ReasonValue, reservoir.CheckInputs(s.in.X, s.channels)
	}
	for i, x := range s.in.X {
		if math.Abs(float64(x)) > reservoir.MaxInput { // a NaN to be held passes
			return wire.ReasonValue, &reservoir.InputError{Sample: i / s.channels, Channel: i % s.channels, Value: x}
		}
	}
	return 0, nil
}

// poison turns a message into a dead letter. Which streams it was about may
// be unknown, so all of its source are flagged.
func (s *shard) poison(m *message, j job, why wire.Reason, err error) error {
	m.p.raise(m.src, codec.FlagPoisonSkipped)
	s.reject(m, j, why, err)
	return nil
}

// reject sends a message to the dead letters, unless that was done before.
func (s *shard) reject(m *message, j job, why wire.Reason, err error) {
	if m.silent {
		return
	}
	if j.seq == m.inSeq {
		m.b.used--
	}
	text := oneLine(err.Error())
	s.warn("message cannot be used: sent to dead letters", "key", j.key, "input", j.seq, "err", text)
	m.b.dead = append(m.b.dead, deadLetter{job: j, why: why, reason: text})
	m.b.answer(m.p).dead = true
}

// stream finds or makes a stream of a source, and marks it as just heard.
func (s *shard) stream(p *partition, src *source, id string) (*stream, error) {
	if st := src.streams[id]; st != nil {
		p.heard(st)
		return st, nil
	}
	if p.recency.Len() >= s.maxStreams {
		if !p.forget(src) {
			return nil, fmt.Errorf("%w: partition %d: all of its %d are in the middle of sequences or wait for missing messages, no room for %q; raise max_streams, or close sequences that have ended", errStreams, p.id, p.recency.Len(), id)
		}
		s.counters.streams.Add(-1)
		s.counters.forgotten.Add(1)
		s.warn("more streams than max_streams: the one longest silent is forgotten", "partition", p.id)
	}
	s.counters.streams.Add(1)
	return p.addStream(src, id, &s.shape), nil
}

// replayed keeps count of partitions that rebuild their states.
func (s *shard) replayed(p *partition, seq uint64) {
	if seq == p.replayTo {
		s.counters.replaying.Add(-1)
		s.log.Info("states rebuilt", "partition", p.id, "input", seq)
	}
}
