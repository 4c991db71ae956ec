package cpu

import (
	"fmt"
	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"math"
	"unsafe"
)

// pool is the states of an engine on this machine, and the part of Engine
// that needs nothing else.
type pool struct {
	net    *reservoir.Network
	layout engine.Layout
	slots  int
	states []uint32 // slots x stride; each slot has the first layout.Words of its stride
	stride int
	close  func() // gives the states' memory back
}

// newPool makes a pool of slots, all reset.
func newPool(net *reservoir.Network, slots int) (pool, error) {
	if err := net.Validate(); err != nil {
		return pool{}, err
	}
	if slots < 1 {
		return pool{}, fmt.Errorf("reservoir: %d slots, want at least 1", slots)
	}
	l := engine.LayoutOf(net.Spec)
	if l.Words > math.MaxInt/4/slots-2*cacheLine {
		return pool{}, fmt.Errorf("reservoir: %d slots of %d words do not fit this machine's address space", slots, l.Words)
	}
	p := pool{net: net, layout: l, slots: slots, stride: l.Words}
	first := 0
	if l.Mixed != nil { // from one state to the next: vectors then lie within lines
		first, p.stride = l.First%cacheLine, (l.Words+cacheLine-1)/cacheLine*cacheLine
	}
	words, free, err := stateMemory(slots*p.stride + 2*cacheLine)
	if err != nil {
		return pool{}, fmt.Errorf("reservoir: memory for %d slots of %d words: %w", slots, l.Words, err)
	}
	p.states, p.close = atLine(words, first, slots*p.stride), free
	if l.Max >= 0 || l.Mixed != nil { // the rest of a reset state is zeros
		for i := range slots {
			l.Reset(net.Spec, p.state(int32(i)))
		}
	}
	return p, nil
}

// cacheLine is in words.
const cacheLine = 16

// atLine returns n of the words, with word first at the start of a cache line.
func atLine(words []uint32, first, n int) []uint32 {
	for uintptr(unsafe.Pointer(&words[first]))%(4*cacheLine) != 0 { // Go does not move allocated memory
		words = words[1:]
	}
	return words[:n:n]
}

// Network implements Engine.
func (p *pool) Network() *reservoir.Network { return p.net }

// Slots implements Engine.
func (p *pool) Slots() int { return p.slots }

// ReadState implements Engine.
func (p *pool) ReadState(slot int32, state []uint32) error {
	if err := engine.CheckSlot(p, slot); err != nil {
		return err
	}
	if len(state) != p.layout.Words {
		return fmt.Errorf("reservoir: room for %d words of state, want %d", len(state), p.layout.Words)
	}
	copy(state, p.state(slot))
	return nil
}

// WriteState implements Engine.
func (p *pool) WriteState(slot int32, state []uint32) error {
	if err := engine.CheckSlot(p, slot); err != nil {
		return err
	}
	if err := p.layout.CheckState(p.net.Spec, state); err != nil {
		return err
	}
	copy(p.state(slot), state)
	return nil
}

// checkFeatures refuses arguments of Engine.Features.
func (p *pool) checkFeatures(slot int32, dst []float32) error {
	if err := engine.CheckSlot(p, slot); err != nil {
		return err
	}
	if want := p.net.Spec.FeatureCount(); len(dst) != want {
		return fmt.Errorf("reservoir: room for %d features, want %d", len(dst), want)
	}
	return nil
}

// free ends the pool: no slot is valid afterwards.
func (p *pool) free() {
	if p.close != nil {
		p.close()
	}
	p.states, p.slots, p.close = nil, 0, nil
}

func (p *pool) state(slot int32) []uint32 {
	at := int(slot) * p.stride
	return p.states[at : at+p.layout.Words]
}

// Arithmetic implements Engine.
func (p *pool) Arithmetic() string { return reservoir.Canonical }
