package kernels

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"unsafe"

	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/internal/testing/ptx"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

var module = sync.OnceValues(func() (*ptx.Module, error) { return ptx.Parse(PTX) })

// ptxEngine runs the launches of a Program in the PTX interpreter: the engine of
// a GPU without a driver and without overlap. Package gpu runs the conformance
// suite on the real engine, through the interpreter too.
type ptxEngine struct {
	net     *reservoir.Network
	slots   int
	program *Program
	batch   *Batch
	modules []*ptx.Module // a kernel comes from the first module that has it
	mem     ptx.Memory
	buffers Buffers
	states  []byte
	taken   []uint64
	kinds   map[string]int // launches of each kernel
	issued  map[string]int // and instructions, of warps
	// Uploads of a call, kept: buffers grow and never shrink.
	inputs, runs, emits, scores buffer
	readouts                    buffer
	launches                    []Launch
	state                       []uint32
	params                      [unsafe.Sizeof(Args{})]byte
}

// buffer is device memory that the host reads or writes only as a whole.
type buffer struct {
	base uint64
	data []byte
}

func (e *ptxEngine) grow(b *buffer, bytes int) {
	if bytes <= len(b.data) {
		return
	}
	if b.base != 0 {
		if err := e.mem.Unmap(b.base); err != nil {
			panic(err)
		}
	}
	b.base, b.data = e.mem.Alloc(bytes)
}

// put uploads words at the end of the buffer, so that a read or write beyond
// the words is beyond the allocation.
func put[T any](e *ptxEngine, b *buffer, v []T) uint64 {
	n := len(v) * int(unsafe.Sizeof(*new(T)))
	e.grow(b, n)
	if n == 0 {
		return b.base
	}
	at := (len(b.data) - n) &^ 255
	copy(b.data[at:], unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), n))
	if err := e.mem.Written(b.base+uint64(at), n); err != nil {
		panic(err)
	}
	return b.base + uint64(at)
}

func newEngine(modules []*ptx.Module, net *reservoir.Network, slots, most int, device Device) (*ptxEngine, error) {
	p, err := New(net, device)
	if err != nil {
		return nil, err
	}
	return newEngineOf(modules, net, slots, most, p)
}

func newEngineOf(modules []*ptx.Module, net *reservoir.Network, slots, most int, p *Program) (*ptxEngine, error) {
	if slots < 1 {
		return nil, fmt.Errorf("kernels: %d slots", slots)
	}
	e := &ptxEngine{net: net, slots: slots, program: p, modules: modules, taken: make([]uint64, slots), kinds: map[string]int{}, issued: map[string]int{}}
	e.batch = NewBatch(slots, most)
	e.buffers.Rows, e.states = e.mem.Alloc(4 * slots * p.StateWords())
	e.state = make([]uint32, p.StateWords())
	engine.LayoutOf(net.Spec).Reset(net.Spec, e.state)
	for i := range slots {
		e.putState(int32(i), e.state)
	}
	var image buffer
	e.buffers.Image = put(e, &image, p.Image())
	if n := p.WorkBytes(most); n > 0 {
		e.buffers.Work, _ = e.mem.Alloc(n)
	}
	return e, nil
}

func (e *ptxEngine) putState(slot int32, state []uint32) {
	at := 4 * int(slot) * len(state)
	for i, w := range state {
		binary.LittleEndian.PutUint32(e.states[at+4*i:], w)
	}
	if err := e.mem.Written(e.buffers.Rows+uint64(at), 4*len(state)); err != nil {
		panic(err)
	}
	e.taken[slot] = engine.LayoutOf(e.net.Spec).Steps(state)
}

func (e *ptxEngine) getState(slot int32, state []uint32) {
	for i := range state {
		state[i] = binary.LittleEndian.Uint32(e.states[4*(int(slot)*len(state)+i):])
	}
}

func (e *ptxEngine) Name() string                { return "ptx" }
func (e *ptxEngine) Network() *reservoir.Network { return e.net }
func (e *ptxEngine) Slots() int                  { return e.slots }
func (e *ptxEngine) ScoreWidth() int             { return e.program.ScoreWidth() }

func (e *ptxEngine) Arithmetic() string      { return reservoir.Canonical }
func (e *ptxEngine) Steps(slot int32) uint64 { return e.taken[slot] }
func (e *ptxEngine) Close() error            { e.slots = 0; return nil }

func (e *ptxEngine) SetReadouts(readouts []*readout.Linear) error {
	image, err := e.program.Readouts(readouts)
	if err != nil {
		return err
	}
	e.buffers.Readouts = put(e, &e.readouts, image)
	return nil
}

func (e *ptxEngine) Advance(inputs []float32, runs []reservoir.Run, scores []float32) error {
	if err := engine.CheckCall(e, inputs, runs, scores); err != nil {
		return err
	}
	e.batch.Cut(runs, e.taken)
	b, at := e.batch, &e.buffers
	at.Inputs, at.Runs, at.Emits = put(e, &e.inputs, inputs), put(e, &e.runs, b.Runs), put(e, &e.emits, b.Emits)
	n := b.Scores * e.ScoreWidth()
	e.grow(&e.scores, 4*n)
	start := (len(e.scores.data) - 4*n) &^ 255
	at.Scores = e.scores.base + uint64(start)
	for i := range b.Rounds {
		e.launches = e.program.Launches(e.launches[:0], *at, b, i)
		for k := range e.launches {
			l := &e.launches[k]
			e.kinds[Names[l.Kernel]]++
			e.params = *(*[unsafe.Sizeof(Args{})]byte)(unsafe.Pointer(&l.Args))
			if err := e.launch(Names[l.Kernel], l); err != nil {
				return err
			}
		}
	}
	for i := range n {
		scores[i] = math.Float32frombits(binary.LittleEndian.Uint32(e.scores.data[start+4*i:]))
	}
	return nil
}

func (e *ptxEngine) launch(name string, l *Launch) error {
	m := e.modules[0]
	for _, x := range e.modules {
		if x.Kernel(name) != nil {
			m = x
			break
		}
	}
	before := e.mem.Instructions()
	defer func() { e.issued[name] += int(e.mem.Instructions() - before) }()
	return m.Launch(&e.mem, ptx.Launch{Kernel: name, Grid: l.Grid, Block: [3]uint32{l.Block, 1, 1}, Shared: int(l.Shared), Params: e.params[:], Limit: 1 << 24})
}

func (e *ptxEngine) Features(slot int32, dst []float32) error {
	if err := engine.CheckSlot(e, slot); err != nil {
		return err
	}
	if len(dst) != e.net.Spec.FeatureCount() {
		return fmt.Errorf("kernels: room for %d features, want %d", len(dst), e.net.Spec.FeatureCount())
	}
	e.getState(slot, e.state)
	engine.LayoutOf(e.net.Spec).FeaturesOf(e.net.Spec, e.state, dst)
	return nil
}

func (e *ptxEngine) ReadState(slot int32, state []uint32) error {
	if err := engine.CheckSlot(e, slot); err != nil {
		return err
	}
	if len(state) != e.program.StateWords() {
		return fmt.Errorf("kernels: room for %d words of state, want %d", len(state), e.program.StateWords())
	}
	e.getState(slot, state)
	return nil
}

func (e *ptxEngine) WriteState(slot int32, state []uint32) error {
	if err := engine.CheckSlot(e, slot); err != nil {
		return err
	}
	if err := engine.LayoutOf(e.net.Spec).CheckState(e.net.Spec, state); err != nil {
		return err
	}
	e.putState(slot, state)
	return nil
}

// h200 describes that card.
var h200 = Device{Multiprocessors: 132, SharedPerBlock: 227 << 10}
