package reservoir

import (
	"errors"
	"fmt"
	"math"

	"github.com/eusn-stream/eusn-stream/readout"
)

const (
	// MaxSteps bounds the samples of one sequence: counts are 32 bits.
	MaxSteps = math.MaxUint32
	// MaxInput bounds a sample's magnitude: sums of such samples never overflow.
	MaxInput = 1e15
)

// Run advances one slot by the samples [From, To) of a call, 0 <= From <= To <=
// samples of the call.
type Run struct {
	Slot     int32
	Reset    bool // start a new sequence: the slot's state is reset first
	Emit     bool // write scores after the last sample
	Judge    bool // with Emit: the engine's detectors judge the sequence, if it is Judging
	From, To int32
}

// Engine owns a pool of states (slots) of one network and advances many states
// by many samples each per call. Every implementation gives the same bits for
// the same samples, independent of the rest of the call: package enginetest
// checks this rule. An engine with other bits has another Arithmetic.
//
// An Engine belongs to one goroutine at a time.
type Engine interface {
	// Name returns the name of the implementation: "generic", "avx2", ...
	Name() string
	// Network returns the engine's network. The caller must not change it.
	Network() *Network
	// Arithmetic is Canonical, or a different name if bits may differ. Engines of one
	// name give the same bits; an engine with another name must not replay the
	// computation.
	Arithmetic() string
	// Slots is the size of the pool; slots are 0..Slots-1, all reset at first.
	Slots() int
	// SetReadouts replaces the readouts without changing a state. An empty list
	// is allowed: emitting runs then write nothing.
	SetReadouts(readouts []*readout.Linear) error
	// ScoreWidth is how many scores an emitting run writes: the readouts'
	// columns, in order.
	ScoreWidth() int
	// Advance processes the runs in order. inputs is samples x Channels,
	// row-major, as measured (the engine applies the transform). scores
	// receives ScoreWidth values per emitting run, in the order of the runs. A
	// slot may appear in several runs. A run of no samples is allowed.
	//
	// A sample that is not finite, or beyond MaxInput, is refused with
	// *InputError before any state changes; so is every other error in the
	// arguments.
	Advance(inputs []float32, runs []Run, scores []float32) error
	// Features writes the slot's FeatureCount features to dst.
	Features(slot int32, dst []float32) error
	// ReadState copies the slot's state (Words words, see Layout) to state.
	ReadState(slot int32, state []uint32) error
	// WriteState replaces the slot's state. A state with values that are not
	// finite is refused.
	WriteState(slot int32, state []uint32) error
	// Close frees the pool. The engine must not be used afterwards.
	Close() error
}

// Canonical names the arithmetic of every engine with the promised bits.
const Canonical = "canonical"

// ErrLost reports an engine whose device failed: its states are gone, every
// call returns this error, and only Close remains. The saved states must be
// written to another engine.
var ErrLost = errors.New("engine lost")

// InputError reports a value that is not finite or beyond MaxInput: it would make all later
// states useless.
type InputError struct {
	Sample, Channel int // in the inputs of the call, from 0
	Value           float32
}

func (e *InputError) Error() string {
	return fmt.Sprintf("reservoir: sample %d, channel %d: want a finite number of magnitude at most %g, got %v", e.Sample, e.Channel, float64(MaxInput), e.Value)
}
