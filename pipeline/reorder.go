package pipeline

import (
	"cmp"
	"slices"
	"strings"

	"github.com/eusn-stream/eusn-stream/codec"
)

// heldMessage came before one with a lower number; it waits for that one. It
// is part of the partition's state: a snapshot holds it with its bytes.
type heldMessage struct {
	seq uint64 // Eusn-Seq
	job job
}

// size is what a held message counts against Config.ReorderBytes.
func (h *heldMessage) size() int {
	n := len(h.job.data)
	for k, vs := range h.job.header {
		for _, v := range vs {
			n += len(k) + len(v)
		}
	}
	return n
}

func bySeq(h heldMessage, seq uint64) int { return cmp.Compare(h.seq, seq) }

// holds reports whether a message of that number waits already.
func (src *source) holds(seq uint64) bool {
	_, found := slices.BinarySearchFunc(src.held, seq, bySeq)
	return found
}

// park keeps a message that came too early. When the key has too many, or the
// partition too many bytes, the missing ones are given up: by count and never
// by time, so that a replay decides the same.
func (s *shard) park(m *message, j job, seq uint64) error {
	src, p := m.src, m.p
	i, _ := slices.BinarySearchFunc(src.held, seq, bySeq)
	h := heldMessage{seq, j}
	src.held = slices.Insert(src.held, i, h)
	p.heldBytes += h.size()
	s.counters.parked.Add(1)
	for len(src.held) > s.reorder || len(src.held) > 0 && p.heldBytes > s.reorderBytes {
		if err := s.giveUp(m); err != nil {
			return err
		}
	}
	return nil
}

// giveUp declares the messages before the first held one missing.
func (s *shard) giveUp(m *message) error {
	src := m.src
	src.partial = src.partial || src.last == 0
	m.p.raise(src, codec.FlagGap)
	if !m.silent {
		s.counters.gaps.Add(1)
		s.warn("messages missing: predictions are flagged", "key", src.key, "after", src.last, "got", src.held[0].seq)
	}
	src.last, src.sum = src.held[0].seq-1, 0
	return s.drain(m, 0)
}

// drain uses held messages as long as none is missing between them. The
// prediction that m causes belongs to m's place in the input.
func (s *shard) drain(m *message, f codec.Flag) error {
	src := m.src
	for len(src.held) > 0 && src.held[0].seq == src.last+1 {
		h := src.held[0]
		src.held = slices.Delete(src.held, 0, 1)
		m.p.heldBytes -= h.size()
		s.counters.parked.Add(-1)
		src.took(h.seq, h.job.data)
		m.flags = f
		if f != 0 && !m.silent {
			s.counters.reordered.Add(1)
		}
		if err := s.use(m, h.job, h.seq); err != nil {
			return err
		}
	}
	m.flags = 0
	return nil
}

// incarnate follows a producer that began counting anew. What it had sent too
// early before that is used: nothing that would fill the holes can come.
func (s *shard) incarnate(m *message, inc string) error {
	src := m.src
	if inc == src.incarnation {
		return nil
	}
	for len(src.held) > 0 {
		if err := s.giveUp(m); err != nil {
			return err
		}
	}
	if src.last > 0 {
		m.p.raise(src, codec.FlagGap)
		if !m.silent {
			s.counters.incarnations.Add(1)
		}
	}
	src.incarnation, src.last, src.sum = strings.Clone(inc), 0, 0
	return nil
}
