package shard

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/readout/novelty"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// engineFactory makes an engine with a pool of slots for a network; see
// pipeline.EngineFactory.
type engineFactory = func(net *reservoir.Network, slots int) (reservoir.Engine, error)

const (
	firstSlots = 64   // most jobs need few; doubling reaches many in a few steps
	manySlots  = 1024 // above this number a pool grows by a quarter: unused slots cost memory
)

// errSlots reports that every slot is in use and the limit is reached.
var errSlots = errors.New("pipeline: no free slot")

// pool manages an engine's slots. A slot is in use while a sequence is open; otherwise
// its row is meaningless, because every sequence begins with a reset. The pool belongs
// to its shard's goroutine.
type pool struct {
	engine   reservoir.Engine
	name     atomic.Pointer[string] // the engine's, for Status
	make     engineFactory
	readouts []*readout.Linear
	novel    []*novelty.Detector // if the engine is Judging
	max      int
	free     []int32
	row      []uint32 // one state row, for growing
}

// newPool makes a pool of at most max slots for the states that a readout reads.
func newPool(factory engineFactory, net *reservoir.Network, linear *readout.Linear, max int) (*pool, error) {
	p := &pool{make: factory, readouts: appendLinear(nil, linear), max: max, row: make([]uint32, engine.LayoutOf(net.Spec).Words)}
	if linear.Novelty != nil {
		p.novel = append(p.novel, linear.Novelty)
	}
	e, err := p.newEngine(net, min(firstSlots, max))
	if err != nil {
		return nil, err
	}
	p.setEngine(e)
	p.addFree(0)
	return p, nil
}

func (p *pool) newEngine(net *reservoir.Network, slots int) (reservoir.Engine, error) {
	e, err := p.make(net, slots)
	if err != nil {
		return nil, fmt.Errorf("pipeline: engine with %d slots: %w", slots, err)
	}
	if err := e.SetReadouts(p.readouts); err != nil {
		e.Close()
		return nil, fmt.Errorf("pipeline: engine: %w", err)
	}
	if j, ok := e.(engine.Judging); ok {
		if err := j.SetDetectors(p.novel); err != nil {
			e.Close()
			return nil, fmt.Errorf("pipeline: engine: %w", err)
		}
	}
	return e, nil
}

// setReadouts gives the engine, and later larger engines, other readouts, and detectors
// if the engine supports detectors.
func (p *pool) setReadouts(all []*readout.Linear, novel []*novelty.Detector) error {
	if err := p.engine.SetReadouts(all); err != nil {
		return fmt.Errorf("pipeline: engine: %w", err)
	}
	if j, ok := p.engine.(engine.Judging); ok {
		if err := j.SetDetectors(novel); err != nil {
			return fmt.Errorf("pipeline: engine: %w", err)
		}
	}
	p.readouts, p.novel = all, novel
	return nil
}

// judgingOf returns the engine if it scores detectors, otherwise nil.
func (p *pool) judgingOf() engine.Judging {
	j, _ := p.engine.(engine.Judging)
	return j
}

func (p *pool) setEngine(e reservoir.Engine) {
	name := e.Name()
	p.engine = e
	p.name.Store(&name)
}

func (p *pool) addFree(from int) {
	for s := p.engine.Slots() - 1; s >= from; s-- {
		p.free = append(p.free, int32(s)) // the lowest is taken first
	}
}

// takeSlot hands out the lowest free slot; errSlots where all are in use.
func (p *pool) takeSlot() (int32, error) {
	if len(p.free) == 0 {
		if err := p.growEngine(); err != nil {
			return 0, err
		}
	}
	s := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	return s, nil
}

// full reports whether no slot is free.
func (p *pool) full() bool { return len(p.free) == 0 }

func (p *pool) releaseSlot(slot int32) { p.free = append(p.free, slot) }

// usedSlots is the number of slots in use.
func (p *pool) usedSlots() int { return p.engine.Slots() - len(p.free) }

// growEngine moves every row to a larger engine.
func (p *pool) growEngine() error {
	old := p.engine
	slots := 2 * old.Slots()
	if old.Slots() >= manySlots {
		slots = old.Slots() + old.Slots()/4
	}
	slots = min(slots, p.max)
	if slots <= old.Slots() {
		return fmt.Errorf("%w: all %d slots of a shard hold open sequences; raise max_slots if memory allows, or end sequences that are finished", errSlots, p.max)
	}
	next, err := p.newEngine(old.Network(), slots)
	if err != nil {
		return err
	}
	if a, b := old.Arithmetic(), next.Arithmetic(); a != b {
		next.Close()
		return fmt.Errorf("pipeline: the new engine uses the arithmetic %s, but the states were computed in %s: let a worker use GPUs of one kind only (CUDA_VISIBLE_DEVICES)", b, a)
	}
	for s := range int32(old.Slots()) {
		if err = old.ReadState(s, p.row); err == nil {
			err = next.WriteState(s, p.row)
		}
		if err != nil {
			next.Close()
			return fmt.Errorf("pipeline: moving the state of slot %d to a larger engine: %w", s, err)
		}
	}
	p.setEngine(next)
	p.addFree(old.Slots())
	return old.Close()
}

// arithmeticOf names an engine's arithmetic as in records: empty for the canonical
// arithmetic.
func arithmeticOf(e reservoir.Engine) string {
	if a := e.Arithmetic(); a != reservoir.Canonical {
		return a
	}
	return ""
}

// appendLinear appends a readout in the engine's order: the readout, then its readout
// of prefixes.
func appendLinear(list []*readout.Linear, l *readout.Linear) []*readout.Linear {
	if list = append(list, l); l.Prefixes != nil {
		list = append(list, l.Prefixes.Linear)
	}
	return list
}
