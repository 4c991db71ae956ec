package pipeline

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
	"github.com/eusn-stream/eusn-stream/reservoir/monitor"
	"github.com/eusn-stream/eusn-stream/reservoir/sequence"
)

// ErrState is of bytes that are no snapshot, or a damaged one.
var ErrState = errors.New("pipeline: snapshot")

// errDamaged is of a snapshot that is not what was stored.
var errDamaged = errors.New("its sha256 does not fit its bytes: it was damaged")

// decodeSnapshot reads what snapshot wrote, into a partition whose streams
// have rows instead of slots. What it allocates is bounded by a multiple of
// the bytes.
func decodeSnapshot(b []byte, sh shape, id int) (*partition, error) {
	body := len(b) - sha256.Size
	if body < len(snapshotMagic)+4 || string(b[:len(snapshotMagic)]) != snapshotMagic {
		return nil, fmt.Errorf("%w: not one of eusn-stream's", ErrState)
	}
	v := binary.LittleEndian.Uint32(b[len(snapshotMagic):])
	if v < wire.OldestState || v > wire.StateVersion {
		return nil, fmt.Errorf("%w: %w", ErrState, &wire.VersionError{Found: uint64(v)})
	}
	if sum := sha256.Sum256(b[:body]); !bytes.Equal(sum[:], b[body:]) {
		return nil, fmt.Errorf("%w: %w", ErrState, errDamaged)
	}
	r := &stateReader{b: b[len(snapshotMagic)+4 : body], shape: sh, form: v}
	p := r.partition(id)
	if r.err == nil && len(r.b) > 0 {
		r.fail("%d bytes after its end", len(r.b))
	}
	if r.err != nil {
		return nil, fmt.Errorf("%w: %w", ErrState, r.err)
	}
	return p, nil
}

// stateReader takes bytes apart; after its first error everything reads as
// zero.
type stateReader struct {
	b []byte
	shape
	form  uint32
	known int // channels whose runs are in it: inputs or 0
	err   error
}

func (r *stateReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
	r.b = nil
}

func (r *stateReader) bytes(n int) []byte {
	if n < 0 || n > len(r.b) { // below: int has 32 bits
		r.fail("cut short: %d bytes left, want %d", len(r.b), n)
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (r *stateReader) u8() byte {
	if v := r.bytes(1); v != nil {
		return v[0]
	}
	return 0
}

func (r *stateReader) flag() bool {
	v := r.u8()
	if v > 1 {
		r.fail("a yes or no is %d", v)
	}
	return v == 1
}

func (r *stateReader) u32() uint32 {
	if v := r.bytes(4); v != nil {
		return binary.LittleEndian.Uint32(v)
	}
	return 0
}

func (r *stateReader) u64() uint64 {
	if v := r.bytes(8); v != nil {
		return binary.LittleEndian.Uint64(v)
	}
	return 0
}

// flags reads what appendFlag wrote. One that has no name is of a program that
// should have raised the version.
func (r *stateReader) flags() codec.Flag {
	if r.form == wire.OldestState {
		return codec.Flag(r.u8())
	}
	f := codec.Flag(r.u32())
	if f>>len(codec.FlagNames) != 0 {
		r.fail("flags %v, which this program does not know", f)
	}
	return f
}

func (r *stateReader) text() string { return string(r.bytes(int(r.u32()))) }

// count is a number of things of at least size bytes each.
func (r *stateReader) count(size int) int {
	n := int(r.u32())
	if n < 0 || n > len(r.b)/size {
		r.fail("%d entries in %d bytes", n, len(r.b))
		return 0
	}
	return n
}

func (r *stateReader) partition(id int) *partition {
	if n := r.bytes(sha256.Size); r.err == nil && !bytes.Equal(n, r.network[:]) {
		r.fail("it is of another network, policy, channels or arithmetic: run the model and kind of engine it was made with, or begin a new job")
		return nil
	}
	p := newPartition(id, 0)
	if got := int(r.u32()); got != id {
		r.fail("it is of partition %d, want %d", got, id)
	}
	p.done, p.doneTime = r.u64(), int64(r.u64())
	for _, want := range []int{r.words, r.states} {
		if got := int(r.u32()); got != want {
			r.fail("its states have the shape %d, want %d", got, want)
		}
	}
	if got := int(r.u32()); got != r.channels {
		if r.width == 0 || got != 0 && got != r.width {
			r.fail("its states have the shape %d, want %d (non_finite hold or not?)", got, r.channels)
		}
		r.channels, p.recast = got, true
	}
	r.known = 0
	if r.form > wire.OldestState {
		if r.known = int(r.u32()); r.known != 0 && r.known != r.inputs {
			r.fail("its streams have %d channels, want %d", r.known, r.inputs)
		}
	}
	p.lossy, p.clock = r.flag(), r.u64()
	for range r.count(minSource) {
		src := r.source(p)
		if p.sources[src.key] != nil {
			r.fail("key %q twice", src.key)
		}
		p.sources[src.key] = src
		p.touchSource(src)
		for range r.count(minStream + r.states*2 + 4*r.channels + 8*r.known) {
			r.stream(p, src)
		}
		if r.err != nil {
			return nil
		}
	}
	p.sortRecency()
	return p
}

func (r *stateReader) source(p *partition) *source {
	src := &source{part: p, key: r.text(), incarnation: r.text(), last: r.u64(), heardIn: r.u64(), partial: r.flag(), flags: r.flags(), streams: map[string]*stream{}}
	before := src.last + 1 // what is held lies beyond the one that is missing
	for range r.count(minHeld) {
		h := heldMessage{seq: r.u64(), job: job{part: p, seq: r.u64(), key: src.key}}
		if h.seq <= before {
			r.fail("key %q: held messages are not in order", src.key)
		}
		before = h.seq
		var err error
		if h.job.header, err = parseHeader(r.text()); err != nil {
			r.fail("key %q: %w", src.key, err)
		}
		h.job.data = slices.Clone(r.bytes(int(r.u32())))
		src.held = append(src.held, h)
		p.heldBytes += h.size()
	}
	return src
}

func (r *stateReader) stream(p *partition, src *source) {
	st := &stream{id: r.text(), source: src, heardAt: r.u64(), heardIn: r.u64()}
	st.seq = sequence.Sequencer{N: int64(r.u64()), Last: int64(r.u64())}
	st.since = r.flags()
	for range r.states {
		st.flags = append(st.flags, r.flags())
	}
	st.lastSeq, st.lastRow, st.lastTime, st.heard = r.u64(), r.u32(), int64(r.u64()), r.flag()
	if r.channels > 0 {
		st.sample = r.floats(r.channels)
	}
	st.channels = make([]monitor.Channel, r.inputs)
	for i := range r.known {
		st.channels[i] = monitor.Channel{Last: math.Float32frombits(r.u32()), Run: r.u32()}
	}
	st.slots, st.rows = slices.Repeat([]int32{-1}, r.states), make([][]uint32, r.states)
	for i := range st.rows {
		switch kind := r.u8(); kind {
		case rowNone:
		case rowHere:
			st.rows[i] = r.rowWords()
		case rowAway:
			if st.away == nil {
				st.away = make([]rowRef, r.states)
			}
			st.away[i] = rowRef{r.u64(), wire.Digest{r.u64(), r.u64()}}
			p.away++
			if st.away[i].seq == 0 {
				r.fail("stream %q: its row is stored nowhere", st.id)
			}
		default:
			r.fail("stream %q: a row of kind %d", st.id, kind)
		}
	}
	switch {
	case r.err != nil:
	case src.streams[st.id] != nil:
		r.fail("stream %q of key %q twice", st.id, src.key)
	case st.seq.N < 0 || st.heardAt > p.clock || st.heardIn > p.done:
		r.fail("stream %q of key %q: a count is out of range", st.id, src.key)
	default:
		src.streams[st.id] = st
		st.element = p.recency.PushFront(st)
		p.touch(st)
	}
}

func (r *stateReader) rowWords() []uint32 {
	raw := r.bytes(4 * r.words)
	row := make([]uint32, len(raw)/4)
	for i := range row {
		row[i] = binary.LittleEndian.Uint32(raw[4*i:])
	}
	return row
}

func (r *stateReader) floats(n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = math.Float32frombits(r.u32())
	}
	return v
}

// sortRecency brings the streams back into the order they were heard in.
func (p *partition) sortRecency() {
	all := make([]*stream, 0, p.recency.Len())
	for e := p.recency.Front(); e != nil; e = e.Next() {
		all = append(all, e.Value.(*stream))
	}
	slices.SortFunc(all, func(a, b *stream) int { return cmp.Compare(a.heardAt, b.heardAt) })
	p.recency.Init()
	for _, st := range all {
		st.element = p.recency.PushFront(st)
	}
}
