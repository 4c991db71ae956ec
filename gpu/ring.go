package gpu

import (
	"errors"
	"unsafe"

	"github.com/eusn-stream/eusn-stream/gpu/internal/cuda"
	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// piece is a part of a call on the device: its stream and its buffers on host
// and device.
type piece struct {
	in, out        []byte // pinned
	devIn, devOut  cuda.Pointer
	stream         cuda.Stream
	computed, done cuda.Event // after its kernels, after the copy of scores

	busy   bool
	scores []float32 // destination of its scores
}

func (p *piece) setUp(c *cuda.Context, v *plan) (err error) {
	step := func(f func() error) {
		if err == nil {
			err = f()
		}
	}
	step(func() error { p.in, err = c.Pin(v.in); return err })
	step(func() error { p.out, err = c.Pin(v.out); return err })
	step(func() error { p.devIn, err = c.Alloc(v.in); return err })
	step(func() error { p.devOut, err = c.Alloc(v.out); return err })
	step(func() error { p.stream, err = c.NewStream(); return err })
	step(func() error { p.computed, err = c.NewEvent(); return err })
	step(func() error { p.done, err = c.NewEvent(); return err })
	return err
}

// Advance implements Engine.
func (e *Engine) Advance(inputs []float32, runs []reservoir.Run, scores []float32) error {
	if e.lost != nil {
		return e.lost
	}
	if err := engine.CheckCall(e, inputs, runs, scores); err != nil {
		return err
	}
	err := e.flushWrites()
	if err == nil {
		e.states.forget()
		err = e.advance(inputs, runs, scores)
	}
	if err != nil {
		return e.fail(err) // the states may be at different samples now
	}
	return nil
}

func (e *Engine) advance(inputs []float32, runs []reservoir.Run, scores []float32) error {
	for c := (cursor{runs: runs}); c.more(); {
		p := &e.ring[e.next]
		e.next = (e.next + 1) % ringDepth
		if err := e.collect(p); err != nil {
			return err
		}
		samples, emits := e.pack(p, &c, inputs)
		width := emits * e.width
		p.scores, scores = scores[:width], scores[width:]
		if err := e.submit(p, samples); err != nil {
			return err
		}
	}
	for i := range ringDepth { // the oldest first
		if err := e.collect(&e.ring[(e.next+i)%ringDepth]); err != nil {
			return err
		}
	}
	e.last = 0
	return nil
}

// cursor is a place in a call: the first sample not yet in a piece.
type cursor struct {
	runs []reservoir.Run
	part int32 // samples taken of the first run
}

func (c *cursor) more() bool { return len(c.runs) > 0 }

// pack fills a piece: samples into its buffer, their runs into e.runs. A piece
// has at least one run, or a part of one.
func (e *Engine) pack(p *piece, c *cursor, inputs []float32) (samples, emits int) {
	e.runs = e.runs[:0]
	to := floats(p.in)
	for c.more() && len(e.runs) < e.plan.runs {
		r := &c.runs[0]
		from := int(r.From + c.part)
		left := int(r.To) - from
		n := min(left, e.plan.samples-samples, e.plan.length)
		last := n == left
		emit := last && r.Emit && e.width > 0
		if n == 0 && !last || emit && 4*(emits+1)*e.width > e.plan.out {
			break // the next piece has room
		}
		copy(to[samples*e.channels:], inputs[from*e.channels:(from+n)*e.channels])
		e.runs = append(e.runs, reservoir.Run{Slot: r.Slot, Reset: r.Reset && c.part == 0, Emit: emit, From: int32(samples), To: int32(samples + n)})
		samples += n
		if emit {
			emits++
		}
		if c.part += int32(n); last {
			c.runs, c.part = c.runs[1:], 0
		}
	}
	return samples, emits
}

// opsAtOnce bounds the operations of one submission, and thus its memory.
const opsAtOnce = 4 << 10

// submit hands a packed piece to the device.
func (e *Engine) submit(p *piece, samples int) error {
	e.rounds.Cut(e.runs, e.taken)
	e.states.touch(e.rounds.Runs)
	records := align(4 * samples * e.channels)
	emits := align(records + copy(p.in[records:], bytesOf(e.rounds.Runs)))
	used := emits + copy(p.in[emits:], bytesOf(e.rounds.Emits))
	at := e.buffers
	at.Inputs, at.Runs, at.Emits, at.Scores = uint64(p.devIn), uint64(p.devIn)+uint64(records), uint64(p.devIn)+uint64(emits), uint64(p.devOut)

	p.busy = true
	e.ops.Reset()
	e.ops.Up(p.devIn, p.in[:used])
	if e.last != 0 {
		e.ops.Wait(e.last) // pieces may touch the same slots
	}
	for round := range e.rounds.Rounds {
		e.launches = e.program.Launches(e.launches[:0], at, e.rounds, round)
		for i := range e.launches {
			l := &e.launches[i]
			cuda.Start(&e.ops, cuda.Launch{Function: e.kernels[l.Kernel], GridX: l.Grid[0], GridY: l.Grid[1], GridZ: l.Grid[2], Block: l.Block, Shared: l.Shared}, &l.Args)
		}
		if e.ops.Len() < opsAtOnce {
			continue
		}
		if err := e.ctx.Submit(p.stream, &e.ops); err != nil {
			return err
		}
		e.ops.Reset()
	}
	e.last = p.computed
	e.ops.Record(p.computed)
	e.ops.Down(p.out[:4*len(p.scores)], p.devOut)
	e.ops.Record(p.done)
	return e.ctx.Submit(p.stream, &e.ops)
}

// collect waits for a piece and copies its scores.
func (e *Engine) collect(p *piece) error {
	if !p.busy {
		return nil
	}
	if err := e.ctx.WaitFor(p.done); err != nil {
		return err
	}
	copy(p.scores, floats(p.out))
	p.busy, p.scores = false, nil
	return nil
}

// fail marks the engine lost.
func (e *Engine) fail(err error) error {
	if e.lost == nil {
		e.lost = &LostError{Device: e.Device(), Reason: err}
		markLost(e.PCI())
	}
	return e.lost
}

// failed classifies an error that leaves the states unchanged, unless the
// device reports a loss.
func (e *Engine) failed(err error) error {
	if errors.Is(err, cuda.Lost) {
		return e.fail(err)
	}
	return classify(err)
}

func align(n int) int { return (n + alignment - 1) / alignment * alignment }

// floats returns pinned memory, which is aligned, as numbers. A host of these
// GPUs has the same byte order.
func floats(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

func words(b []byte) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

// bytesOf looks at records without pointers as bytes.
func bytesOf[T any](s []T) []byte {
	var t T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(t)))
}
