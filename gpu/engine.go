package gpu

import (
	"fmt"
	"math"

	"github.com/eusn-stream/eusn-stream/gpu/internal/cuda"
	"github.com/eusn-stream/eusn-stream/gpu/internal/kernels"
	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Options of an engine.
type Options struct {
	// MaxSlots lets the pool exceed the requested slots, up to this many, as
	// long as half of the device's free memory stays free: a stage then need not
	// move its states to a larger pool later.
	MaxSlots int
	// Products except Canonical use tensor cores and give different states.
	Products Products
	// SkipLost skips devices on which this process lost an engine.
	SkipLost bool
}

// Engine is the engine on one GPU.
type Engine struct {
	net      *reservoir.Network
	layout   engine.Layout
	products Products
	slots    int
	readouts []*readout.Linear
	channels int
	width    int

	ctx     *cuda.Context
	program *kernels.Program
	plan    plan
	buffers kernels.Buffers
	rounds  *kernels.Batch
	taken   []uint64 // samples of each slot: the first words of its state, on the host
	kernels []cuda.Function

	ring     [ringDepth]piece
	next     int        // of the ring
	last     cuda.Event // after the last piece's kernels; 0: none running
	runs     []reservoir.Run
	launches []kernels.Launch
	ops      cuda.Batch
	states   stateWindows

	lost error
}

var _ reservoir.Engine = (*Engine)(nil)

// New makes an engine on the GPU with the most free memory, with a pool of at
// least the given slots, all reset. The errors are *UnavailableError without a
// GPU, ErrMemory if the pool does not fit, ErrSelfTest if the GPU computes
// different bits (with tensor cores: a difference above rounding), and ErrTF32
// if the network does not suit the requested products.
func New(net *reservoir.Network, slots int, o Options) (*Engine, error) {
	return newEngine(net, slots, o, defaultLimits, true)
}

func newEngine(net *reservoir.Network, slots int, o Options, l limits, test bool) (*Engine, error) {
	if slots < 1 || slots > math.MaxInt32 {
		return nil, fmt.Errorf("gpu: %d slots, want 1 to %d", slots, math.MaxInt32)
	}
	if err := net.Validate(); err != nil {
		return nil, err
	}
	ctx, err := open(o.SkipLost)
	if err != nil {
		return nil, err
	}
	e := &Engine{net: net, layout: engine.LayoutOf(net.Spec), channels: net.Spec.Channels, products: o.Products, ctx: ctx}
	err = e.size(slots, o, l)
	if err == nil {
		err = classify(e.setUp(l))
	}
	if err == nil && test {
		err = e.selfTest()
	}
	if err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// size plans the memory.
func (e *Engine) size(slots int, o Options, l limits) (err error) {
	dev := e.ctx.Device()
	if e.program, err = kernels.NewApproximate(e.net, kernels.Device{Multiprocessors: dev.Multiprocessors, SharedPerBlock: dev.Shared}, kernels.Products(o.Products)); err != nil {
		return fmt.Errorf("gpu: %s: %w", dev.Name, err)
	}
	e.plan = newPlan(e.program, e.channels, l)
	free, _, err := e.ctx.Memory()
	if err != nil {
		return classify(err)
	}
	if e.slots, err = e.plan.slots(dev, free, slots, min(o.MaxSlots, math.MaxInt32)); err != nil {
		return err
	}
	e.taken, e.rounds = make([]uint64, e.slots), kernels.NewBatch(e.slots, e.plan.round)
	return nil
}

// setUp loads the kernels, allocates everything and resets the states.
func (e *Engine) setUp(l limits) error {
	if err := e.load(); err != nil {
		return err
	}
	for _, b := range []struct {
		at    *uint64
		bytes int
	}{{&e.buffers.Rows, 4 * e.plan.stateWords * e.slots}, {&e.buffers.Image, e.plan.image}, {&e.buffers.Work, e.plan.work}} {
		if b.bytes == 0 {
			continue
		}
		p, err := e.ctx.Alloc(b.bytes)
		if err != nil {
			return err
		}
		*b.at = uint64(p)
	}
	for i := range e.ring {
		if err := e.ring[i].setUp(e.ctx, &e.plan); err != nil {
			return err
		}
	}
	if err := e.states.setUp(e, l.window); err != nil {
		return err
	}
	if err := e.upload(cuda.Pointer(e.buffers.Image), e.program.Image()); err != nil {
		return err
	}
	return e.resetStates()
}

// load compiles the kernels for the device; the driver keeps the result in its
// cache on disk.
func (e *Engine) load() error {
	m, err := e.ctx.Load(kernels.PTX)
	if err != nil {
		return err
	}
	shared := e.ctx.Device().Shared
	for i, name := range kernels.Names {
		most := 0
		if kernels.Dynamic(i) {
			most = shared
		}
		f, err := e.ctx.Function(m, name, most)
		if err != nil {
			return err
		}
		e.kernels = append(e.kernels, f)
	}
	return nil
}

// Device names the GPU, as in "NVIDIA H200".
func (e *Engine) Device() string { return e.ctx.Device().Name }

// PCI is the GPU's bus address, as in "0000:1b:00.0".
func (e *Engine) PCI() string { return e.ctx.Device().PCI }

// Network implements Engine.
func (e *Engine) Network() *reservoir.Network { return e.net }

// Slots implements Engine. The number may exceed the request of New.
func (e *Engine) Slots() int { return e.slots }

// ScoreWidth implements Engine.
func (e *Engine) ScoreWidth() int { return e.width }

// Steps returns the number of samples of a slot for engine.CheckCall.
func (e *Engine) Steps(slot int32) uint64 { return e.taken[slot] }

// SetReadouts implements Engine. The error is ErrMemory if the device lacks room
// for the readouts.
func (e *Engine) SetReadouts(readouts []*readout.Linear) error {
	if e.lost != nil {
		return e.lost
	}
	width, err := engine.CheckReadouts(e.net, readouts)
	if err != nil {
		return err
	}
	if 4*width > e.plan.out {
		return fmt.Errorf("gpu: the readouts have %d columns, want at most %d", width, e.plan.out/4)
	}
	image, err := e.program.Readouts(readouts)
	if err != nil {
		return fmt.Errorf("gpu: %w", err)
	}
	var at cuda.Pointer
	if len(image) > 0 {
		if at, err = e.ctx.Alloc(4 * len(image)); err == nil {
			err = e.upload(at, image)
		}
	}
	if err != nil {
		e.program.Readouts(e.readouts) // the previous readouts
		e.ctx.Free(at)
		return e.failed(err)
	}
	old := cuda.Pointer(e.buffers.Readouts)
	e.readouts, e.width, e.buffers.Readouts = readouts, width, uint64(at)
	return e.failed(e.ctx.Free(old))
}

// Features implements Engine.
func (e *Engine) Features(slot int32, dst []float32) error {
	if err := engine.CheckSlot(e, slot); err != nil {
		return err
	}
	if n := e.net.Spec.FeatureCount(); len(dst) != n {
		return fmt.Errorf("gpu: room for %d features, want %d", len(dst), n)
	}
	state, err := e.state(slot)
	if err != nil {
		return err
	}
	e.layout.FeaturesOf(e.net.Spec, state, dst)
	return nil
}

// Close implements Engine. For a lost device, Close frees memory if possible.
func (e *Engine) Close() error {
	e.slots = 0
	err := e.ctx.Close()
	if e.lost != nil || err == nil {
		return nil // every call on a lost device returns its error
	}
	return fmt.Errorf("gpu: %w", err)
}
