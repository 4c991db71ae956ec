package state

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/sequence"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// applyIdleEvent ends the streams that an end event names.
func (s *Machine) applyIdleEvent(m *step, j *Message) error {
	e, err := wire.ParseIdle(j.Data, m.p.ID, j.Seq)
	if !wire.IsIdleKey(j.Key) {
		err = fmt.Errorf("pipeline: header %s is %q on key %q: only the stage sends end events, under keys whose tokens begin with %s", wire.HeaderKind, wire.KindIdle, j.Key, wire.IdlePrefix)
	}
	if err != nil {
		m.addDeadLetter(j, wire.ReasonEvent, err)
		return nil
	}
	if e.Job != s.Events { // another job has not heard these streams; every job watches silence separately
		return nil
	}
	m.fx.EndEvents++
	for _, key := range e.Gaps {
		src := m.p.Sources[key]
		if src == nil || src.heardIn > e.After || len(src.Held) == 0 {
			continue
		}
		m.src = src
		m.p.touchSource(src)
		if err := s.giveUpAll(m); err != nil {
			return err
		}
	}
	for _, n := range e.Streams {
		src := m.p.Sources[n.Key]
		if src == nil || len(src.Held) > 0 {
			continue
		}
		st := src.Streams[n.Stream]
		if st == nil || st.heardIn > e.After {
			continue
		}
		s.endSilent(m, st)
		if n.Forget {
			m.p.forgetStream(st, nil)
			m.fx.Streams--
			m.fx.Forgotten++
		}
	}
	return nil
}

// ReleaseWaiting makes end events that use the messages of keys held for numbers before
// the first message read: if reading begins in the middle of the log, the earlier
// numbers are unknown. Live, such messages wait for more messages of their key. apply
// receives the events in order, each after the state's last message.
func (s *Machine) ReleaseWaiting(p *Partition, apply func(Message) error) error {
	var waiting []string
	for key, src := range p.Sources {
		if src.Last == 0 && len(src.Held) > 0 {
			waiting = append(waiting, key)
		}
	}
	slices.Sort(waiting)
	for some := range slices.Chunk(waiting, wire.IdleEntries) {
		data, err := json.Marshal(wire.IdleEvent{Job: s.Events, After: p.Done, Gaps: some})
		if err != nil {
			return fmt.Errorf("pipeline: end event: %w", err)
		}
		m := Message{Seq: p.Done + 1, Stored: p.DoneTime, Key: wire.IdleKey(0, 1), Header: wire.Header{wire.HeaderKind: {wire.KindIdle}}, Data: data}
		if err := apply(m); err != nil {
			return err
		}
	}
	return nil
}

// endSilent ends a stream's open sequence. The stream counts as heard no more
// than before.
func (s *Machine) endSilent(m *step, st *Stream) {
	if !st.Seq.Open() {
		return
	}
	if !m.silent {
		m.fx.Idle++
	}
	m.p.Touch(st)
	m.src, m.seq, m.end = st.Source, 0, false
	if s.Taken != nil {
		s.Taken(&Taken{Stream: st, Input: m.inSeq, Samples: sequence.Samples{EndAfter: true}, Silent: true})
	}
	pieces := s.tracker.EndSilent(&st.Track, st.Source.flags)
	if len(pieces) == 0 { // no prediction: as if there had been no sample
		m.fx.Runs = append(m.fx.Runs, Run{Stream: st, Drop: true})
		return
	}
	for i := range pieces {
		s.addRun(m, st, 0, group{}, &pieces[i])
	}
}

// applyPromotion applies a promotion in the input. The effect depends only on the log:
// whether the readout can be loaded is checked when a prediction needs the readout.
func (s *Machine) applyPromotion(m *step, j *Message) error {
	e, err := wire.ParsePromote(j.Data, m.p.ID)
	if !wire.IsIdleKey(j.Key) {
		err = fmt.Errorf("pipeline: header %s is %q on key %q: only the stage sends promotions, under keys whose tokens begin with %s", wire.HeaderKind, wire.KindPromote, j.Key, wire.IdlePrefix)
	}
	if err != nil {
		m.addDeadLetter(j, wire.ReasonEvent, err)
		return nil
	}
	if s.OneReadout || e.Job != s.Events || e.Begun != s.Begun || e.Number <= m.p.Promotion().Number {
		return nil // a promotion of another job or an earlier job, or a repeated promotion
	}
	m.p.addPromotion(Promotion{e.Number, e.Readout, j.Seq}, e.Now || s.Policy.Kind == reservoir.Endless)
	if !m.silent {
		m.fx.Promotions++
		m.addNote(Note{Kind: NotePromotion, Number: e.Number, Readout: e.Readout})
	}
	return nil
}
