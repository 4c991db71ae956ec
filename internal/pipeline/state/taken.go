package state

import (
	"crypto/sha256"
	"fmt"

	"github.com/eusn-stream/eusn-stream/internal/sequence"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Taken is a message's contribution to a stream: samples, an end mark, or both. It is
// valid until the callback returns.
type Taken struct {
	Stream     *Stream
	Input, Seq uint64 // the message: its input number, and its Eusn-Seq
	Samples    sequence.Samples
	X          []float32    // the samples, row by row; NaN where a value is missing
	Flags      outcome.Flag // flags raised since the stream's previous sample
	Silent     bool         // no message, but silence ends the sequence

	rows []int32
}

// Row returns the index of a sample in its message.
func (t *Taken) Row(i int) uint32 {
	g := group{rows: t.rows}
	return g.rowOf(i)
}

// reportTaken passes a stream's part of a message to the Taken callback.
func (s *Machine) reportTaken(m *step, st *Stream, g group, x []float32) {
	if s.Taken != nil {
		s.Taken(&Taken{Stream: st, Input: m.from, Seq: m.seq, Samples: g.Samples, X: x, Flags: st.Since, rows: g.rows})
	}
}

// OneState returns a policy whose sequences are open exactly when sequences under p are
// open, with at most one sequence at a time, for callers that need no predictions.
func OneState(p reservoir.Policy) reservoir.Policy {
	p.Early = 0
	switch p.Kind {
	case reservoir.Window, reservoir.Endless:
		return reservoir.Policy{Kind: reservoir.Endless, Early: 1 << 30}
	}
	return p
}

// ShapeWithout returns a shape for states without network rows, one sequence at a time:
// only the effect of messages on streams is kept.
func ShapeWithout(p reservoir.Policy, channels int) Shape {
	what := fmt.Sprintf("eusn without a network, policy %s %d %d, %d channels", p.Kind, p.Length, p.Gap, channels)
	return Shape{network: sha256.Sum256([]byte(what)), states: 1, channels: channels}
}

// NoRows writes states that have no rows.
type NoRows struct{}

func (NoRows) AppendRow(dst []byte, _ *Stream, _ int) ([]byte, error) {
	return append(dst, RowNone), nil
}
