package ptx

import (
	"fmt"
	"math"
	"math/bits"
)

// all is the mask of a full warp.
const all = math.MaxUint32

type (
	lanes32 [32]uint32
	lanes64 [32]uint64
)

// block is the current block, and the state of its launch.
type block struct {
	k       *Kernel
	mem     *Memory
	span    *span // of the last global access
	params  []byte
	index   [3]uint32
	grid    [3]uint32
	number  uint32
	threads uint32
	round   uint32 // barriers passed
	budget  int64  // instructions until the limit

	shared                  []uint32
	cells                   []sharedCell
	firstRound, sharedRound uint32
	warps                   []*warp
}

// warp is up to 32 threads. Register n of lane i is at 32*n+i.
type warp struct {
	b     *block
	first int // thread of lane 0
	live  uint32
	p, r  []uint32
	l     []uint64

	groups  []group // running lanes, grouped by instruction
	waiting uint32  // lanes at a barrier
	waitAt  int
	in      *instruction
}

// group is lanes at one instruction.
type group struct {
	next int
	mask uint32
}

// stop is the value that a warp panics with.
type stop struct{ err *Error }

func (w *warp) trap(lane int, format string, args ...any) {
	e := &Error{Kernel: w.b.k.Name, Block: w.b.index, Thread: -1, Line: w.in.line, Text: w.in.text, What: fmt.Sprintf(format, args...)}
	if lane >= 0 {
		e.Thread = w.first + lane
	}
	panic(stop{e})
}

// Launch runs a kernel to its end. After an *Error the memory is as the
// kernel left it.
func (m *Module) Launch(mem *Memory, l Launch) (err error) {
	k := m.kernels[l.Kernel]
	if k == nil {
		return fmt.Errorf("ptx: no kernel %q in this module", l.Kernel)
	}
	if err := k.checkLaunch(&l); err != nil {
		return err
	}
	blocks := uint64(l.Grid[0]) * uint64(l.Grid[1]) * uint64(l.Grid[2])
	if blocks*uint64(l.Block[0]) >= math.MaxUint32 {
		return fmt.Errorf("ptx: %s: %d blocks of %d threads are more than can be told apart here", k.Name, blocks, l.Block[0])
	}
	mem.launch++
	b := k.takeBlock(mem, &l)
	limit := b.budget
	defer func() {
		mem.issued += uint64(limit - b.budget)
		k.giveBlock(b)
	}()
	defer func() {
		if r := recover(); r != nil {
			s, ours := r.(stop)
			if !ours {
				panic(r)
			}
			err = s.err
		}
	}()
	for z := range l.Grid[2] {
		for y := range l.Grid[1] {
			for x := range l.Grid[0] {
				b.index = [3]uint32{x, y, z}
				b.runBlock()
				b.number++
			}
		}
	}
	return nil
}

// takeBlock prepares a block for a launch; it reuses a block of an earlier launch if the
// shape is equal.
func (k *Kernel) takeBlock(mem *Memory, l *Launch) *block {
	words := ((k.StaticShared+15)/16*16 + l.Shared + 3) / 4
	var b *block
	k.mu.Lock()
	for i, f := range k.free {
		if f.threads == l.Block[0] && len(f.shared) == words {
			b = f
			k.free[i] = k.free[len(k.free)-1]
			k.free = k.free[:len(k.free)-1]
			break
		}
	}
	k.mu.Unlock()
	if b == nil {
		b = newBlock(k, l.Block[0], words)
	}
	b.mem, b.span, b.params, b.grid, b.number, b.budget = mem, nil, l.Params, l.Grid, 0, l.Limit
	if b.budget == 0 {
		b.budget = DefaultLimit
	}
	return b
}

// freeBlocks bounds the number of blocks that a kernel keeps.
const freeBlocks = 4

func (k *Kernel) giveBlock(b *block) {
	b.mem, b.span, b.params = nil, nil, nil
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.free) < freeBlocks {
		k.free = append(k.free, b)
	} else {
		k.free[int(b.sharedRound)%freeBlocks] = b
	}
}

func newBlock(k *Kernel, threads uint32, words int) *block {
	b := &block{k: k, threads: threads, shared: make([]uint32, words), cells: make([]sharedCell, words)}
	n := int(threads)
	for first := 0; first < n; first += 32 {
		w := &warp{b: b, first: first, live: all >> (32 - min(32, n-first))}
		w.p, w.r, w.l = make([]uint32, k.counts[pred]), make([]uint32, 32*k.counts[word]), make([]uint64, 32*k.counts[long])
		for _, c := range k.constants {
			w.fillConstant(c)
		}
		b.warps = append(b.warps, w)
	}
	return b
}

// fillConstant writes a constant into its register, in every lane.
func (w *warp) fillConstant(c constant) {
	switch c.class {
	case pred:
		if c.value != 0 {
			w.p[c.index] = all
		}
	case word:
		for i := range 32 {
			w.r[32*c.index+i] = uint32(c.value)
		}
	case long:
		for i := range 32 {
			w.l[32*c.index+i] = c.value
		}
	}
}

// setSpecials writes the special registers of the current block.
func (w *warp) setSpecials() {
	b := w.b
	dim := func(name string) int { return int(name[len(name)-1] - 'x') }
	for _, s := range b.k.special {
		for i := range 32 {
			v := uint32(0)
			switch s.name {
			case "%tid.x":
				v = uint32(w.first + i)
			case "%laneid":
				v = uint32(i)
			case "%ntid.x":
				v = b.threads
			case "%ntid.y", "%ntid.z":
				v = 1
			case "%ctaid.x", "%ctaid.y", "%ctaid.z":
				v = b.index[dim(s.name)]
			case "%nctaid.x", "%nctaid.y", "%nctaid.z":
				v = b.grid[dim(s.name)]
			case dynamicName:
				w.l[32*s.index+i] = uint64((b.k.StaticShared + 15) / 16 * 16)
				continue
			}
			w.r[32*s.index+i] = v
		}
	}
}

// runBlock executes one block to its end: all warps to their next barrier, repeatedly.
func (b *block) runBlock() {
	b.sharedRound++
	b.firstRound, b.round = b.sharedRound, 1
	for _, w := range b.warps {
		w.setSpecials()
		w.groups = append(w.groups[:0], group{0, w.live})
		w.waiting = 0
	}
	for {
		waiting := 0
		for _, w := range b.warps {
			w.advance()
			waiting += bits.OnesCount32(w.waiting)
		}
		if waiting == 0 {
			return
		}
		at := -1
		for _, w := range b.warps {
			if w.waiting == 0 {
				continue
			}
			if at >= 0 && w.waitAt != at {
				w.in = &b.k.code[w.waitAt]
				w.trap(-1, "barrier divergence: other threads wait at the barrier of line %d", b.k.code[at].line)
			}
			at = w.waitAt
			if waiting < int(b.threads) {
				w.in = &b.k.code[at]
				w.trap(-1, "barrier divergence: %d of %d threads are here, the others have ended", waiting, b.threads)
			}
		}
		b.round++
		b.sharedRound++
		for _, w := range b.warps {
			w.groups, w.waiting = append(w.groups[:0], group{at + 1, w.waiting}), 0
		}
	}
}

// advance runs the warp until all its lanes wait or have ended. If lanes have split into
// groups, the group at the lowest instruction runs, so that the groups reconverge.
func (w *warp) advance() {
	for len(w.groups) > 0 {
		g, following := w.takeFirst()
		w.runGroup(g, following)
	}
}

// takeFirst removes the groups at the lowest instruction and returns them merged, and the
// instruction of the next group.
func (w *warp) takeFirst() (g group, following int) {
	g.next, following = math.MaxInt, math.MaxInt
	for _, x := range w.groups {
		g.next = min(g.next, x.next)
	}
	remaining := w.groups[:0]
	for _, x := range w.groups {
		if x.next == g.next {
			g.mask |= x.mask
		} else {
			following = min(following, x.next)
			remaining = append(remaining, x)
		}
	}
	w.groups = remaining
	return g, following
}

// runGroup runs a group until it ends, waits, or reaches the instruction of the next
// group.
func (w *warp) runGroup(g group, following int) {
	code := w.b.k.code
	for g.next < following {
		in := &code[g.next]
		w.in = in
		if w.b.budget--; w.b.budget < 0 {
			w.trap(-1, "the launch's limit of instructions is reached: an endless loop?")
		}
		m := g.mask
		if in.guard >= 0 {
			guard := w.p[in.guard]
			if in.not {
				guard = ^guard
			}
			m &= guard
		}
		g.next++
		switch in.kind {
		case plain:
			if m != 0 {
				in.run(w, m)
			}
			continue
		case together:
			if m != all {
				w.trap(-1, "%d of the warp's 32 lanes are here", bits.OnesCount32(m))
			}
			in.run(w, m)
			continue
		case branch:
			if m == g.mask {
				g.next = in.target
			} else if m != 0 {
				w.groups = append(w.groups, group{in.target, m})
				following = min(following, in.target)
				g.mask &^= m
			}
			continue
		case barrier:
			if m != 0 {
				if w.waiting != 0 && w.waitAt != g.next-1 {
					w.trap(-1, "barrier divergence: other lanes wait at the barrier of line %d", code[w.waitAt].line)
				}
				w.waiting |= m
				w.waitAt = g.next - 1
			}
		case exit:
		}
		if g.mask &^= m; g.mask == 0 {
			return
		}
	}
	w.groups = append(w.groups, g)
}
