package state

import (
	"fmt"

	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// promote does what a promotion in the input asks for. What it does follows from
// the log alone: whether the readout can be had is seen when a prediction needs
// it.
func (s *Machine) promote(m *step, j *Message) error {
	e, err := wire.ParsePromote(j.Data, m.p.ID)
	if !wire.IsIdleKey(j.Key) {
		err = fmt.Errorf("pipeline: header %s is %q on key %q: only the stage sends promotions, under keys whose tokens begin with %s", wire.HeaderKind, wire.KindPromote, j.Key, wire.IdlePrefix)
	}
	if err != nil {
		m.reject(j, wire.ReasonEvent, err)
		return nil
	}
	if s.OneReadout || e.Job != s.Events || e.Number <= m.p.Promotion().Number {
		return nil // it is another job's, or was taken before
	}
	m.p.promote(Promotion{e.Number, e.Readout, j.Seq}, e.Now || s.Policy.Kind == reservoir.Endless)
	if !m.silent {
		m.fx.Promotions++
		m.note(Note{Kind: NotePromotion, Number: e.Number, Readout: e.Readout})
	}
	return nil
}
