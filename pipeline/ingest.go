package pipeline

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// ingest takes one message into the batch: its samples become rows and runs,
// its predictions places in the answer. A message that cannot be used becomes
// a dead letter; the error is only for what must stop the stage. While a
// restart replays, states advance and nothing is answered.
func (s *shard) ingest(b *batch, j job) error {
	b.messages++
	p := j.part
	if j.seq <= p.done {
		return nil // an ordered consumer never goes back; if one did, the state must not
	}
	p.done = j.seq
	a := b.answer(p)
	a.inSeq = j.seq
	silent := j.seq <= p.replayTo
	if silent {
		s.counters.replayed.Add(1)
		s.replayed(p, j.seq)
	}
	src, isNew := p.source(j.key)
	seq, err := s.arrive(p, src, isNew, j, silent)
	switch {
	case err != nil:
		return s.poison(b, p, src, j, err, silent)
	case seq < 0:
		return nil
	}
	if err := s.decode(j); err != nil {
		return s.poison(b, p, src, j, err, silent)
	}
	m := message{b: b, p: p, src: src, seq: uint64(seq), inSeq: j.seq, silent: silent, end: endsAfter(j.header)}
	if err := s.spread(&m); err != nil {
		return err
	}
	src.flags = 0
	if !silent {
		b.used++
		b.rows += s.in.Rows
		b.bytes += len(j.data)
	}
	return nil
}

// arrive checks the checksum and the sequence number and brings the source up
// to date. seq is the message's number, 0 without one, -1 where the message
// repeats an earlier one.
func (s *shard) arrive(p *partition, src *source, isNew bool, j job, silent bool) (seq int64, err error) {
	h := j.header
	text := h.Get(HeaderSeq)
	if text == "" {
		if isNew && p.lossy {
			src.partial = true
		}
		return 0, checkCRC(h, j.data)
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("pipeline: header %s is %q, want a number from 1 to 2^63-1", HeaderSeq, text)
	}
	if inc := h.Get(HeaderIncarnation); inc != src.incarnation {
		if src.last > 0 { // the producer lost count: samples may be missing
			src.raise(codec.FlagGap)
			if !silent {
				s.counters.incarnations.Add(1)
			}
		}
		src.incarnation, src.last = inc, 0
	}
	switch {
	case n <= src.last:
		if !silent {
			s.counters.duplicates.Add(1)
		}
		return -1, nil
	case n > src.last+1:
		src.partial = src.partial || src.last == 0
		src.raise(codec.FlagGap)
		if !silent {
			s.counters.gaps.Add(1)
			s.warn("messages missing: predictions are flagged", "key", src.key, "after", src.last, "got", n)
		}
	}
	src.last = n // even if the message turns out to be unusable: it has arrived
	return int64(n), checkCRC(h, j.data)
}

func checkCRC(h nats.Header, data []byte) error {
	text := h.Get(HeaderCRC)
	if text == "" {
		return nil
	}
	want, err := strconv.ParseUint(text, 16, 32)
	if err != nil {
		return fmt.Errorf("pipeline: header %s is %q, want up to 8 hex digits", HeaderCRC, text)
	}
	if got := codec.CRC(data); got != uint32(want) {
		return fmt.Errorf("pipeline: payload has CRC-32C %08x, header %s says %08x: damaged on the way", got, HeaderCRC, want)
	}
	return nil
}

func endsAfter(h nats.Header) bool { return strings.EqualFold(h.Get(HeaderEnd), "true") }

// decode fills s.in from the payload and checks what the codec cannot know.
func (s *shard) decode(j job) error {
	start := time.Now()
	defer func() { s.counters.decodeNS.Add(int64(time.Since(start))) }()
	if err := s.decoder.Decode(j.data, &s.in); err != nil {
		return err
	}
	if s.policy.Kind == reservoir.Gap && s.in.Rows > 0 {
		if len(s.in.Times) == 0 || slices.Contains(s.in.Times, codec.NoTime) {
			return errors.New("pipeline: the model closes sequences by silence, want a ts field without nulls")
		}
	}
	for i, x := range s.in.X {
		if math.Abs(float64(x)) > reservoir.MaxInput { // a NaN to be held passes
			return &reservoir.InputError{Row: i / s.channels, Channel: i % s.channels, Value: x}
		}
	}
	return nil
}

// poison turns a message into a dead letter. Which streams it was about may
// be unknown, so all of its source are flagged.
func (s *shard) poison(b *batch, p *partition, src *source, j job, reason error, silent bool) error {
	if len(src.streams) == 0 {
		if _, err := s.stream(p, src, src.key); err != nil {
			return err
		}
	}
	src.raise(codec.FlagPoisonSkipped)
	if !silent {
		s.warn("message cannot be used: sent to dead letters", "key", src.key, "input", j.seq, "err", reason)
		b.dead = append(b.dead, deadLetter{job: j, reason: reason.Error()})
		b.answer(p).dead = true
	}
	return nil
}

// stream finds or makes a stream of a source, and marks it as just heard.
func (s *shard) stream(p *partition, src *source, id string) (*stream, error) {
	if st := src.streams[id]; st != nil {
		p.recency.MoveToFront(st.element)
		return st, nil
	}
	if p.recency.Len() >= s.maxStreams {
		if !p.forget(src) {
			return nil, fmt.Errorf("pipeline: partition %d: all of its %d streams are in the middle of sequences, no room for %q; raise max_streams, or close sequences that have ended", p.id, p.recency.Len(), id)
		}
		s.counters.streams.Add(-1)
		s.counters.forgotten.Add(1)
		s.warn("more streams than max_streams: the one longest silent is forgotten", "partition", p.id)
	}
	held := 0
	if s.hold {
		held = s.channels
	}
	s.counters.streams.Add(1)
	return p.addStream(src, id, s.policy.States(), held), nil
}

// replayed keeps count of partitions that rebuild their states.
func (s *shard) replayed(p *partition, seq uint64) {
	if seq == p.replayTo {
		s.counters.replaying.Add(-1)
		s.log.Info("states rebuilt", "partition", p.id, "input", seq)
	}
}
