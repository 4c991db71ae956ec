package gpu

import (
	"fmt"
	"slices"

	"github.com/eusn-stream/eusn-stream/gpu/internal/cuda"
	"github.com/eusn-stream/eusn-stream/gpu/internal/kernels"
	"github.com/eusn-stream/eusn-stream/internal/engine"
)

// stateWindows are copies of states in pinned memory. The stage reads, after each
// call, the changed states, and moves pools state by state: a copy for each state
// would cost more than the call. So a read fetches a window of states: the states
// that the last call changed, in the order of the call, or else the neighbors of the
// requested state. Writes are collected and leave together before any other access to
// the states.
type stateWindows struct {
	words  int // of a state
	stream cuda.Stream
	ops    cuda.Batch

	read  []uint32 // states of the window
	bytes []byte   // the same memory
	size  int      // capacity in states
	slots []int32  // slots of the states in read
	place []int32  // of a slot in read, valid if slots agrees

	touched []int32 // slots of the last call, in order, each once
	order   []int32 // place of a slot in touched, valid if touched agrees

	write     []uint32
	writeSame []byte
	pending   []int32 // slots of the states in write
}

func (w *stateWindows) setUp(e *Engine, bytes int) (err error) {
	w.words = e.plan.stateWords
	w.size = max(1, min(e.slots, bytes/(4*w.words)))
	w.place, w.order = make([]int32, e.slots), make([]int32, e.slots)
	if w.stream, err = e.ctx.NewStream(); err != nil {
		return err
	}
	if w.bytes, err = e.ctx.Pin(4 * w.words * w.size); err != nil {
		return err
	}
	if w.writeSame, err = e.ctx.Pin(4 * w.words * w.size); err != nil {
		return err
	}
	w.read, w.write = words(w.bytes), words(w.writeSame)
	w.slots, w.pending = make([]int32, 0, w.size), make([]int32, 0, w.size)
	return nil
}

// forget starts a call: states read earlier are old, and no state is changed.
func (w *stateWindows) forget() { w.slots, w.touched = w.slots[:0], w.touched[:0] }

// touch notes the slots of a piece.
func (w *stateWindows) touch(runs []kernels.Run) {
	for i := range runs {
		if slot := int32(runs[i].Slot); !listed(w.touched, w.order, slot) {
			w.order[slot] = int32(len(w.touched))
			w.touched = append(w.touched, slot)
		}
	}
}

// listed reports whether list holds a slot at its place in places.
func listed(list, places []int32, slot int32) bool {
	p := places[slot]
	return int(p) < len(list) && list[p] == slot
}

// state is a slot's state, valid until the next call of the engine.
func (e *Engine) state(slot int32) ([]uint32, error) {
	if e.lost != nil {
		return nil, e.lost
	}
	w := &e.states
	if len(w.pending) > 0 || !listed(w.slots, w.place, slot) { // the window may hold pending states
		if err := e.fetch(slot); err != nil {
			return nil, e.fail(err)
		}
	}
	at := int(w.place[slot]) * w.words
	return w.read[at : at+w.words], nil
}

// fetch reads a window that begins with a slot's state.
func (e *Engine) fetch(slot int32) error {
	if err := e.flushWrites(); err != nil {
		return err
	}
	w := &e.states
	w.slots = w.slots[:0]
	if listed(w.touched, w.order, slot) {
		rest := w.touched[w.order[slot]:]
		w.slots = append(w.slots, rest[:min(w.size, len(rest))]...)
	} else {
		for s := int(slot); s < min(int(slot)+w.size, e.slots); s++ {
			w.slots = append(w.slots, int32(s))
		}
	}
	w.ops.Reset()
	e.eachRange(w.slots, w.bytes, func(device cuda.Pointer, host []byte) { w.ops.Down(host, device) })
	if err := e.runBatch(&w.ops); err != nil {
		w.slots = w.slots[:0]
		return err
	}
	for i, s := range w.slots {
		w.place[s] = int32(i)
	}
	return nil
}

// eachRange visits states that are consecutive in host memory, as many at a
// time as are consecutive on the device.
func (e *Engine) eachRange(slots []int32, host []byte, do func(device cuda.Pointer, host []byte)) {
	size := 4 * e.plan.stateWords
	for i := 0; i < len(slots); {
		n := 1
		for i+n < len(slots) && slots[i+n] == slots[i]+int32(n) {
			n++
		}
		do(cuda.Pointer(e.buffers.Rows)+cuda.Pointer(size)*cuda.Pointer(slots[i]), host[i*size:(i+n)*size])
		i += n
	}
}

// runBatch runs operations on the states' stream and waits for their end.
func (e *Engine) runBatch(ops *cuda.Batch) error {
	if err := e.ctx.Submit(e.states.stream, ops); err != nil {
		return err
	}
	return e.ctx.Synchronize(e.states.stream)
}

// flushWrites sends the collected states to the device.
func (e *Engine) flushWrites() error {
	w := &e.states
	if len(w.pending) == 0 {
		return nil
	}
	w.ops.Reset()
	e.eachRange(w.pending, w.writeSame, func(device cuda.Pointer, host []byte) { w.ops.Up(device, host) })
	w.pending, w.slots = w.pending[:0], w.slots[:0]
	return e.runBatch(&w.ops)
}

// ReadState implements Engine.
func (e *Engine) ReadState(slot int32, state []uint32) error {
	if err := engine.CheckSlot(e, slot); err != nil {
		return err
	}
	if len(state) != e.layout.Words {
		return fmt.Errorf("gpu: room for %d words of state, want %d", len(state), e.layout.Words)
	}
	from, err := e.state(slot)
	if err != nil {
		return err
	}
	copy(state, from)
	return nil
}

// WriteState implements Engine.
func (e *Engine) WriteState(slot int32, state []uint32) error {
	if e.lost != nil {
		return e.lost
	}
	if err := engine.CheckSlot(e, slot); err != nil {
		return err
	}
	if err := e.layout.CheckState(e.net.Spec, state); err != nil {
		return err
	}
	w := &e.states
	if len(w.pending) == w.size {
		if err := e.flushWrites(); err != nil {
			return e.fail(err)
		}
	}
	copy(w.write[len(w.pending)*w.words:], state)
	w.pending = append(w.pending, slot)
	e.taken[slot] = e.layout.Steps(state)
	return nil
}

// upload copies words to the device, a window at a time.
func (e *Engine) upload(to cuda.Pointer, from []uint32) error {
	w := &e.states
	w.slots = w.slots[:0]
	for len(from) > 0 {
		n := copy(w.read, from)
		w.ops.Reset()
		w.ops.Up(to, w.bytes[:4*n])
		if err := e.runBatch(&w.ops); err != nil {
			return err
		}
		from, to = from[n:], to+cuda.Pointer(4*n)
	}
	return nil
}

// resetStates makes every state a new sequence's.
func (e *Engine) resetStates() error {
	w := &e.states
	states := cuda.Pointer(e.buffers.Rows)
	clear(e.taken)
	w.slots, w.pending, w.touched = w.slots[:0], w.pending[:0], w.touched[:0]
	w.ops.Reset()
	for i := range w.size {
		e.layout.Reset(e.net.Spec, w.read[i*w.words:(i+1)*w.words])
	}
	if !slices.ContainsFunc(w.read[:w.words], func(v uint32) bool { return v != 0 }) {
		w.ops.Fill(states, 0, e.slots*w.words)
		return e.runBatch(&w.ops)
	}
	for s := 0; s < e.slots; s += w.size {
		w.ops.Up(states+cuda.Pointer(4*w.words*s), w.bytes[:4*w.words*min(w.size, e.slots-s)])
	}
	return e.runBatch(&w.ops)
}
