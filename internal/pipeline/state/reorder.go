package state

import (
	"slices"
	"strings"

	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// holdMessage keeps a message that came too early. If the key has too many messages, or
// the partition too many bytes, the missing messages are given up: by count and never
// by time, so that a replay decides the same.
func (s *Machine) holdMessage(m *step, j *Message, seq uint64) error {
	src, p := m.src, m.p
	i, _ := slices.BinarySearchFunc(src.Held, seq, bySeq)
	h := Held{seq, *j}
	src.Held = slices.Insert(src.Held, i, h)
	p.HeldBytes += h.byteSize()
	m.fx.Parked++
	for len(src.Held) > s.Reorder || len(src.Held) > 0 && p.HeldBytes > s.ReorderBytes {
		if err := s.giveUpMissing(m); err != nil {
			return err
		}
	}
	return nil
}

// giveUpMissing declares the messages before the first held message missing.
func (s *Machine) giveUpMissing(m *step) error {
	src := m.src
	m.p.raiseFlag(src, outcome.FlagGap)
	if !m.silent {
		m.fx.Gaps++
		m.addNote(Note{Kind: NoteGap, After: src.Last, Number: src.Held[0].seq})
	}
	if src.Last == 0 {
		m.asked = m.p.Asked
	}
	src.Last, src.sum = src.Held[0].seq-1, 0
	err := s.useHeld(m, 0)
	m.asked = 0
	return err
}

// giveUpAll declares all messages missing for which the key's held messages wait.
func (s *Machine) giveUpAll(m *step) error {
	for len(m.src.Held) > 0 {
		if err := s.giveUpMissing(m); err != nil {
			return err
		}
	}
	return nil
}

// useHeld uses held messages up to the next missing message. A prediction caused by m
// belongs to m's position in the input.
func (s *Machine) useHeld(m *step, f outcome.Flag) error {
	src := m.src
	for len(src.Held) > 0 && src.Held[0].seq == src.Last+1 {
		h := src.Held[0]
		src.Held = slices.Delete(src.Held, 0, 1)
		m.p.HeldBytes -= h.byteSize()
		m.fx.Parked--
		src.noteArrived(h.seq, h.msg.Data)
		m.flags = f
		silent := m.silent
		m.silent = silent || h.msg.Seq < m.asked
		if f != 0 && !m.silent {
			m.fx.Reordered++
		}
		err := s.useMessage(m, &h.msg, h.seq)
		if m.silent = silent; err != nil {
			return err
		}
	}
	m.flags = 0
	return nil
}

// followIncarnation follows a producer that restarted its numbers from 1. Held messages
// of the previous incarnation are used: no later message can fill the holes.
func (s *Machine) followIncarnation(m *step, inc string) error {
	src := m.src
	if inc == src.incarnation {
		return nil
	}
	if err := s.giveUpAll(m); err != nil {
		return err
	}
	if src.Last > 0 {
		m.p.raiseFlag(src, outcome.FlagGap)
		if !m.silent {
			m.fx.Incarnations++
		}
	}
	src.incarnation, src.Last, src.sum = strings.Clone(inc), 0, 0
	return nil
}
