package state

import (
	"crypto/sha256"
	"fmt"

	"github.com/eusn-stream/eusn-stream/internal/sequence"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Taken is what a message has given to a stream: samples, an end mark, or both.
// It is valid until the call that got it returns.
type Taken struct {
	Stream     *Stream
	Input, Seq uint64 // the message: its number in the input, and its Eusn-Seq
	Samples    sequence.Samples
	X          []float32    // the samples, row by row; NaN where a value is missing
	Flags      outcome.Flag // what happened since the stream's sample before: on no sample of it
	Silent     bool         // no message, but silence ends the sequence

	rows []int32
}

// Row is where a sample was in its message.
func (t *Taken) Row(i int) uint32 {
	g := group{rows: t.rows}
	return g.rowOf(i)
}

// reportTaken hands a stream's part of a message to who listens.
func (s *Machine) reportTaken(m *step, st *Stream, g group, x []float32) {
	if s.Taken != nil {
		s.Taken(&Taken{Stream: st, Input: m.from, Seq: m.seq, Samples: g.Samples, X: x, Flags: st.Since, rows: g.rows})
	}
}

// OneState is a policy under which a stream's sequences are open when they are
// open under p, and which never has more than one of them at a time: for who
// needs no predictions.
func OneState(p reservoir.Policy) reservoir.Policy {
	p.Early = 0
	switch p.Kind {
	case reservoir.Window, reservoir.Endless:
		return reservoir.Policy{Kind: reservoir.Endless, Early: 1 << 30}
	}
	return p
}

// ShapeWithout is that of states of which only what messages do to streams is
// kept: no network, one sequence at a time.
func ShapeWithout(p reservoir.Policy, channels int) Shape {
	what := fmt.Sprintf("eusn without a network, policy %s %d %d, %d channels", p.Kind, p.Length, p.Gap, channels)
	return Shape{network: sha256.Sum256([]byte(what)), states: 1, channels: channels}
}

// NoRows writes states that have no rows.
type NoRows struct{}

func (NoRows) AppendRow(dst []byte, _ *Stream, _ int) ([]byte, error) {
	return append(dst, RowNone), nil
}
