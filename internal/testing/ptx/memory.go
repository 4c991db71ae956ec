package ptx

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
)

// Memory is a device's global memory: host slices at device addresses, with the records
// of each word that the checks need. One goroutine at a time may use a Memory.
type Memory struct {
	spans  []*span // by address
	launch uint32  // number of the current launch
	next   uint64
	issued uint64
}

// Instructions returns the number of instructions that all launches on this memory have
// executed, counted per warp: if the lanes of a warp have diverged, once for each group.
func (m *Memory) Instructions() uint64 { return m.issued }

// span is one allocation.
type span struct {
	base    uint64
	data    []byte
	written []uint64 // a bit for each word
	pages   [][]cell // accesses of each word; allocated at the first access of a kernel
}

// cell records the last accesses of a word in the launch with number launch. Threads are
// numbered from 1 across the launch; rounds are a block's barriers.
type cell struct {
	launch                   uint32
	writer, reader           uint32 // 0: none
	writerRound, readerRound uint32
	readers                  uint8 // 0: one thread; 1: several of one block; 2: of several blocks
}

const pageWords = 1 << 10

// Map makes a host slice device memory at base (a multiple of 256). No word counts as
// written; see Written.
func (m *Memory) Map(base uint64, data []byte) error {
	if base == 0 || base%256 != 0 || base+uint64(len(data)) < base {
		return fmt.Errorf("ptx: map %d bytes at %#x, want an address that is a multiple of 256, not 0", len(data), base)
	}
	at, _ := slices.BinarySearchFunc(m.spans, base, func(s *span, b uint64) int { return cmp.Compare(s.base, b) })
	if at > 0 && m.spans[at-1].end() > base || at < len(m.spans) && m.spans[at].base < base+max(uint64(len(data)), 1) {
		return fmt.Errorf("ptx: map %d bytes at %#x: overlaps another allocation", len(data), base)
	}
	words := (len(data) + 3) / 4
	m.spans = slices.Insert(m.spans, at, &span{
		base: base, data: data,
		written: make([]uint64, (words+63)/64), pages: make([][]cell, (words+pageWords-1)/pageWords),
	})
	return nil
}

func (s *span) end() uint64 { return s.base + max(uint64(len(s.data)), 1) }

// Unmap ends an allocation.
func (m *Memory) Unmap(base uint64) error {
	for i, s := range m.spans {
		if s.base == base {
			m.spans = slices.Delete(m.spans, i, i+1)
			return nil
		}
	}
	return fmt.Errorf("ptx: unmap %#x: no allocation begins there", base)
}

// Alloc maps n new zero bytes at an address that it chooses, far from other allocations.
func (m *Memory) Alloc(n int) (base uint64, data []byte) {
	m.next += 1 << 40
	data = make([]byte, n)
	if err := m.Map(m.next, data); err != nil {
		panic(err) // only if the caller has mapped this address
	}
	return m.next, data
}

// Written records that the host wrote n bytes at addr (a multiple of 4), so that kernels
// may read the bytes.
func (m *Memory) Written(addr uint64, n int) error {
	if n == 0 {
		return nil
	}
	s := m.findSpan(addr)
	if s == nil || uint64(n) > s.end()-addr || addr%4 != 0 {
		return fmt.Errorf("ptx: %d bytes at %#x are in no allocation", n, addr)
	}
	first := (addr - s.base) / 4
	for w := first; w < first+uint64(n+3)/4; w++ {
		s.written[w/64] |= 1 << (w % 64)
	}
	return nil
}

// findSpan returns the allocation that contains addr, nil if there is none.
func (m *Memory) findSpan(addr uint64) *span {
	lo, hi := 0, len(m.spans)
	for lo < hi {
		if mid := (lo + hi) / 2; m.spans[mid].base <= addr {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 || addr-m.spans[lo-1].base >= uint64(len(m.spans[lo-1].data)) {
		return nil
	}
	return m.spans[lo-1]
}

// cellOf returns the cell of a word, cleared if the launch is new.
func (s *span) cellOf(word uint64, launch uint32) *cell {
	page := &s.pages[word/pageWords]
	if *page == nil {
		*page = make([]cell, pageWords)
	}
	c := &(*page)[word%pageWords]
	if c.launch != launch {
		*c = cell{launch: launch}
	}
	return c
}

// access is one load or store of a warp.
type access struct {
	store  bool
	wide   bool // elements of 8 bytes, in long registers
	extend bool // elements of 4 bytes, loaded to long registers
	regs   []int
	base   int // long register
	offset uint64
}

// runGlobal runs the access for every lane.
func (a *access) runGlobal(w *warp, mask uint32) {
	elem := uint64(4)
	if a.wide {
		elem = 8
	}
	size := elem * uint64(len(a.regs))
	addrs := (*lanes64)(w.l[a.base:])
	mem, s := w.b.mem, w.b.span
	for i := 0; i < 32; i++ {
		if mask>>i&1 == 0 {
			continue
		}
		addr := addrs[i] + a.offset
		if s == nil || addr < s.base || addr-s.base >= uint64(len(s.data)) {
			if s = mem.findSpan(addr); s == nil {
				w.trap(i, "global address %#x is in no allocation", addr)
			}
			w.b.span = s
		}
		at := addr - s.base
		if at+size > uint64(len(s.data)) {
			w.trap(i, "global address %#x: %d bytes run over the end of an allocation of %d", addr, size, len(s.data))
		}
		if addr%size != 0 {
			w.trap(i, "global address %#x is misaligned for %d bytes", addr, size)
		}
		for e, reg := range a.regs {
			at := at + uint64(e)*elem
			a.touch(w, i, s, at/4)
			if a.wide {
				a.touch(w, i, s, at/4+1)
				if a.store {
					binary.LittleEndian.PutUint64(s.data[at:], w.l[reg+i])
				} else {
					w.l[reg+i] = binary.LittleEndian.Uint64(s.data[at:])
				}
			} else if a.extend {
				w.l[reg+i] = uint64(binary.LittleEndian.Uint32(s.data[at:]))
			} else if a.store {
				binary.LittleEndian.PutUint32(s.data[at:], w.r[reg+i])
			} else {
				w.r[reg+i] = binary.LittleEndian.Uint32(s.data[at:])
			}
		}
	}
}

// touch checks an access to one word of global memory and records the thread.
func (a *access) touch(w *warp, lane int, s *span, word uint64) {
	bit := uint64(1) << (word % 64)
	b := w.b
	c := s.cellOf(word, b.mem.launch)
	me := b.number*b.threads + uint32(w.first+lane) + 1
	block := func(thread uint32) uint32 { return (thread - 1) / b.threads }
	if c.writer != 0 && c.writer != me && (block(c.writer) != b.number || c.writerRound == b.round) {
		w.trap(lane, "race: global word %#x was written by thread %d of block %d with no barrier between", s.base+4*word, (c.writer-1)%b.threads, block(c.writer))
	}
	if !a.store {
		if s.written[word/64]&bit == 0 {
			w.trap(lane, "read of global word %#x, which nothing wrote", s.base+4*word)
		}
		switch {
		case c.reader == 0 || c.reader == me && c.readers == 0 || c.readers < 2 && block(c.reader) == b.number && c.readerRound != b.round:
			c.reader, c.readerRound, c.readers = me, b.round, 0
		case block(c.reader) != b.number:
			c.readers = 2
		case c.reader != me:
			c.readers = max(c.readers, 1)
		}
		return
	}
	if c.reader != 0 && (c.reader != me || c.readers > 0) && (c.readers == 2 || block(c.reader) != b.number || c.readerRound == b.round) {
		w.trap(lane, "race: global word %#x was read by thread %d of block %d with no barrier between", s.base+4*word, (c.reader-1)%b.threads, block(c.reader))
	}
	s.written[word/64] |= bit
	c.writer, c.writerRound = me, b.round
}

// sharedCell records the last accesses of a word of shared memory. Rounds count all
// barriers and blocks since the memory was allocated.
type sharedCell struct {
	writerRound, readerRound uint32
	writer, reader           int32 // several readers: -1
}

func (a *access) runShared(w *warp, mask uint32) {
	elem := uint64(4)
	if a.wide {
		elem = 8
	}
	size := elem * uint64(len(a.regs))
	addrs := (*lanes64)(w.l[a.base:])
	b := w.b
	end := uint64(4 * len(b.shared))
	for m := mask; m != 0; m &= m - 1 {
		i := bits.TrailingZeros32(m)
		addr := addrs[i&31] + a.offset
		if addr > end || addr+size > end {
			w.trap(i, "shared address %#x: %d bytes, the block has %d", addr, size, end)
		}
		if addr&(size-1) != 0 {
			w.trap(i, "shared address %#x is misaligned for %d bytes", addr, size)
		}
		at := int(addr / 4)
		switch {
		case a.wide:
			for e, reg := range a.regs {
				at := at + 2*e
				if a.store {
					b.storeShared(w, i, at, uint32(w.l[reg+i]))
					b.storeShared(w, i, at+1, uint32(w.l[reg+i]>>32))
				} else {
					w.l[reg+i] = uint64(b.loadShared(w, i, at)) | uint64(b.loadShared(w, i, at+1))<<32
				}
			}
		case a.store:
			for e, reg := range a.regs {
				b.storeShared(w, i, at+e, w.r[reg+i])
			}
		case a.extend:
			for e, reg := range a.regs {
				w.l[reg+i] = uint64(b.loadShared(w, i, at+e))
			}
		default:
			a.loadWords(w, i, at)
		}
	}
}

// loadWords is the common load, with the checks of loadShared inlined: half of the
// interpreter's time is spent here.
func (a *access) loadWords(w *warp, lane, at int) {
	b, me := w.b, int32(w.first+lane)
	cells, values := b.cells[at:at+len(a.regs)], b.shared[at:at+len(a.regs)]
	for e, reg := range a.regs {
		c := &cells[e]
		if c.writerRound == b.sharedRound && c.writer != me || c.writerRound < b.firstRound {
			b.loadShared(w, lane, at+e) // reports the error
		}
		if c.readerRound != b.sharedRound {
			c.readerRound, c.reader = b.sharedRound, me
		} else if c.reader != me {
			c.reader = -1
		}
		w.r[reg+lane] = values[e]
	}
}

func (b *block) loadShared(w *warp, lane, at int) uint32 {
	c := &b.cells[at]
	me := int32(w.first + lane)
	if c.writerRound == b.sharedRound && c.writer != me {
		w.trap(lane, "race: shared word %#x was written by thread %d with no barrier between", 4*at, c.writer)
	}
	if c.writerRound < b.firstRound {
		w.trap(lane, "read of shared word %#x, which nothing wrote", 4*at)
	}
	if c.readerRound != b.sharedRound {
		c.readerRound, c.reader = b.sharedRound, me
	} else if c.reader != me {
		c.reader = -1
	}
	return b.shared[at]
}

func (b *block) storeShared(w *warp, lane, at int, v uint32) {
	c := &b.cells[at]
	me := int32(w.first + lane)
	if c.writerRound == b.sharedRound && c.writer != me {
		w.trap(lane, "race: shared word %#x was written by thread %d with no barrier between", 4*at, c.writer)
	}
	if c.readerRound == b.sharedRound && c.reader != me {
		who := "several threads"
		if c.reader >= 0 {
			who = fmt.Sprintf("thread %d", c.reader)
		}
		w.trap(lane, "race: shared word %#x was read by %s with no barrier between", 4*at, who)
	}
	c.writerRound, c.writer = b.sharedRound, me
	b.shared[at] = v
}
