package reservoir

import (
	"errors"
	"fmt"

	"github.com/eusn-stream/eusn-stream/readout"
)

// Run advances one slot by the input rows [From, To) of a call, 0 <= From <=
// To <= rows.
type Run struct {
	Slot     int32
	Reset    bool // start a new sequence: the slot's row is reset first
	Emit     bool // write a score row after the last sample
	From, To int32
}

// Engine owns a pool of state rows (slots) of one network and advances many
// of them by many samples each per call. Every implementation gives the same
// bits for the same samples, whatever else is in the call: package enginetest
// holds them to it. The exceptions say so themselves: see ArithmeticOf.
//
// An Engine belongs to one goroutine at a time.
type Engine interface {
	// Name says which implementation this is: "generic", "avx2", ...
	Name() string
	// Network is what the engine computes. The caller must not change it.
	Network() *Network
	// Slots is the size of the pool; slots are 0..Slots-1, all reset at first.
	Slots() int
	// SetHeads replaces the readouts without touching a state. No heads at
	// all is allowed: emitting runs then write nothing.
	SetHeads(heads []*readout.Linear) error
	// ScoreWidth is the length of one score row: the heads' columns, in
	// order.
	ScoreWidth() int
	// Advance takes the runs in order. inputs is rows x Channels, row-major,
	// raw samples (the engine applies the transform). scores receives one row
	// of ScoreWidth values per emitting run, in the order of the runs. A slot
	// may appear in several runs. A run of no rows is allowed.
	//
	// A sample that is not finite, or beyond MaxInput, is refused with
	// *InputError before any state changes; so is everything else that is
	// wrong with the arguments.
	Advance(inputs []float32, runs []Run, scores []float32) error
	// Features writes the slot's FeatureCount features to dst.
	Features(slot int, dst []float32) error
	// ReadRow copies the slot's row (RowWords words, see Layout) to row.
	ReadRow(slot int, row []uint32) error
	// WriteRow replaces the slot's row. A row with non-finite values is
	// refused.
	WriteRow(slot int, row []uint32) error
	// Close frees the pool. The engine must not be used afterwards.
	Close() error
}

// Canonical names the arithmetic of every engine that gives the promised bits.
const Canonical = "canonical"

// Approximate is an Engine whose arithmetic may be another one.
type Approximate interface {
	// Arithmetic is Canonical, or a name that differs wherever bits may.
	Arithmetic() string
}

// ArithmeticOf names the arithmetic of an engine. Engines of one name give the
// same bits; what one has computed must not be replayed by one of another.
func ArithmeticOf(e Engine) string {
	if a, ok := e.(Approximate); ok {
		return a.Arithmetic()
	}
	return Canonical
}

// ErrLost is an engine whose device failed: its rows are gone, every call
// returns this error, and only Close is left. The rows must be written to
// another engine from where they were saved.
var ErrLost = errors.New("engine lost")

// InputError is a sample that would poison a state for ever.
type InputError struct {
	Row, Channel int
	Value        float32
}

func (e *InputError) Error() string {
	return fmt.Sprintf("reservoir: input row %d, channel %d is %v, want a finite number of magnitude at most %g", e.Row, e.Channel, e.Value, float64(MaxInput))
}
