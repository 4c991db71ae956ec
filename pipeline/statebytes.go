package pipeline

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/eusn-stream/eusn-stream/codec"
)

// A snapshot is everything a partition remembers after an input message, in
// little-endian words; strings and byte strings have a 32-bit length before
// them:
//
//	"EUSNSNAP" version:u32 network:[32]byte partition:u32 in_seq:u64 in_time:i64
//	words:u32 states:u32 channels:u32 lossy:u8 clock:u64 sources:u32
//	per source, by key: source, streams:u32, its streams by id
//	  source: key incarnation last:u64 heard_in:u64 partial:u8 flags:u8 held:u32
//	          per held message: seq:u64 in_seq:u64 header data
//	  stream: id heard_at:u64 heard_in:u64 n:i64 last:i64 since:u8 flags:[states]u8
//	          seq:u64 row:u32 time:i64 has_sample:u8 sample:[channels]f32
//	          per state: has_row:u8, and its row of words if so
//	sha256 of everything before it
//
// words, states and channels are the network's row, the policy's states and,
// where missing values are held, its channels (else 0).
const (
	snapshotMagic   = "EUSNSNAP"
	snapshotVersion = 2
	// smallest encoded source and stream: a count that claims more of them
	// than bytes are left for is refused before anything is allocated
	minSource = 4 + 4 + 8 + 8 + 1 + 1 + 4 + 4
	minStream = 4 + 8 + 8 + 8 + 8 + 1 + 8 + 4 + 8 + 1
	minHeld   = 8 + 8 + 4 + 4
)

// shape is what states must have in common to be exchanged.
type shape struct {
	network  [sha256.Size]byte // of the model without readouts
	words    int               // of a state row
	states   int               // per stream
	channels int               // of a remembered sample; 0 = none is
}

func appendString(dst []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint32(dst, uint32(len(s))), s...)
}

func appendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, 1)
	}
	return append(dst, 0)
}

func appendSource(dst []byte, src *source) []byte {
	le := binary.LittleEndian
	dst = appendString(appendString(dst, src.key), src.incarnation)
	dst = le.AppendUint64(le.AppendUint64(dst, src.last), src.heardIn)
	dst = append(appendBool(dst, src.partial), byte(src.flags))
	dst = le.AppendUint32(dst, uint32(len(src.held)))
	for _, h := range src.held {
		dst = le.AppendUint64(le.AppendUint64(dst, h.seq), h.job.seq)
		dst = appendString(dst, headerText(h.job.header))
		dst = append(le.AppendUint32(dst, uint32(len(h.job.data))), h.job.data...)
	}
	return dst
}

// appendStream adds a stream; row reads the row of a slot.
func appendStream(dst []byte, st *stream, row func(slot int32) ([]uint32, error)) ([]byte, error) {
	le := binary.LittleEndian
	dst = le.AppendUint64(le.AppendUint64(appendString(dst, st.id), st.heardAt), st.heardIn)
	dst = le.AppendUint64(le.AppendUint64(dst, uint64(st.seq.n)), uint64(st.seq.last))
	dst = append(dst, byte(st.since))
	for _, f := range st.flags {
		dst = append(dst, byte(f))
	}
	dst = le.AppendUint32(le.AppendUint64(dst, st.lastSeq), st.lastRow)
	dst = appendBool(le.AppendUint64(dst, uint64(st.lastTime)), st.heard)
	for _, v := range st.sample {
		dst = le.AppendUint32(dst, math.Float32bits(v))
	}
	for _, slot := range st.slots {
		dst = appendBool(dst, slot >= 0)
		if slot < 0 {
			continue
		}
		words, err := row(slot)
		if err != nil {
			return nil, err
		}
		for _, w := range words {
			dst = le.AppendUint32(dst, w)
		}
	}
	return dst, nil
}

// headerText writes headers in one order, so that equal ones are equal bytes.
func headerText(h nats.Header) string {
	var b bytes.Buffer
	for _, k := range slices.Sorted(maps.Keys(h)) {
		for _, v := range h[k] {
			b.WriteString(k)
			b.WriteByte(0)
			b.WriteString(v)
			b.WriteByte(0)
		}
	}
	return b.String()
}

func parseHeader(s string) (nats.Header, error) {
	h := nats.Header{}
	for s != "" {
		var kv [2]string
		for i := range kv {
			end := bytes.IndexByte([]byte(s), 0)
			if end < 0 {
				return nil, errors.New("headers of a held message are cut short")
			}
			kv[i], s = s[:end], s[end+1:]
		}
		h[kv[0]] = append(h[kv[0]], kv[1])
	}
	return h, nil
}

// snapshot encodes a partition as it is now.
func (p *partition) snapshot(sh shape, row func(slot int32) ([]uint32, error)) ([]byte, error) {
	le := binary.LittleEndian
	b := append([]byte(snapshotMagic), 0, 0, 0, 0)
	le.PutUint32(b[len(snapshotMagic):], snapshotVersion)
	b = append(b, sh.network[:]...)
	b = le.AppendUint32(b, uint32(p.id))
	b = le.AppendUint64(le.AppendUint64(b, p.done), uint64(p.doneTime))
	for _, n := range []int{sh.words, sh.states, sh.channels} {
		b = le.AppendUint32(b, uint32(n))
	}
	b = le.AppendUint64(appendBool(b, p.lossy), p.clock)
	b = le.AppendUint32(b, uint32(len(p.sources)))
	for _, key := range slices.Sorted(maps.Keys(p.sources)) {
		src := p.sources[key]
		b = appendSource(b, src)
		b = le.AppendUint32(b, uint32(len(src.streams)))
		for _, st := range src.sorted() {
			var err error
			if b, err = appendStream(b, st, row); err != nil {
				return nil, fmt.Errorf("pipeline: partition %d: state of stream %q: %w", p.id, st.id, err)
			}
		}
	}
	sum := sha256.Sum256(b)
	return append(b, sum[:]...), nil
}

// decodeSnapshot reads what snapshot wrote, into a partition whose streams
// have rows instead of slots. What it allocates is bounded by a multiple of
// the bytes.
func decodeSnapshot(b []byte, sh shape, id int) (*partition, error) {
	body := len(b) - sha256.Size
	if body < len(snapshotMagic)+4 || string(b[:len(snapshotMagic)]) != snapshotMagic {
		return nil, errors.New("pipeline: snapshot: not one of eusn-stream's")
	}
	if v := binary.LittleEndian.Uint32(b[len(snapshotMagic):]); v != snapshotVersion {
		return nil, fmt.Errorf("pipeline: snapshot: version %d, this program reads %d", v, snapshotVersion)
	}
	if sum := sha256.Sum256(b[:body]); !bytes.Equal(sum[:], b[body:]) {
		return nil, errors.New("pipeline: snapshot: its sha256 does not fit its bytes: it was damaged")
	}
	r := &stateReader{b: b[len(snapshotMagic)+4 : body], shape: sh}
	p := r.partition(id)
	if r.err == nil && len(r.b) > 0 {
		r.fail("%d bytes after its end", len(r.b))
	}
	if r.err != nil {
		return nil, fmt.Errorf("pipeline: snapshot: %w", r.err)
	}
	return p, nil
}

// stateReader takes bytes apart; after its first error everything reads as
// zero.
type stateReader struct {
	b []byte
	shape
	err error
}

func (r *stateReader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
	r.b = nil
}

func (r *stateReader) bytes(n int) []byte {
	if n > len(r.b) {
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

func (r *stateReader) text() string { return string(r.bytes(int(r.u32()))) }

// count is a number of things of at least size bytes each.
func (r *stateReader) count(size int) int {
	n := int(r.u32())
	if n > len(r.b)/size {
		r.fail("%d entries in %d bytes", n, len(r.b))
		return 0
	}
	return n
}

func (r *stateReader) partition(id int) *partition {
	if n := r.bytes(sha256.Size); r.err == nil && !bytes.Equal(n, r.network[:]) {
		r.fail("it is of another network, policy or channels: run the model it was made with, or begin a new job")
		return nil
	}
	p := newPartition(id, 0)
	if got := int(r.u32()); got != id {
		r.fail("it is of partition %d, want %d", got, id)
	}
	p.done, p.doneTime = r.u64(), int64(r.u64())
	for _, want := range []int{r.words, r.states, r.channels} {
		if got := int(r.u32()); got != want {
			r.fail("its states have the shape %d, want %d (non_finite hold or not?)", got, want)
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
		for range r.count(minStream + r.states*2 + 4*r.channels) {
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
	src := &source{key: r.text(), incarnation: r.text(), last: r.u64(), heardIn: r.u64(), partial: r.flag(), flags: codec.Flag(r.u8()), streams: map[string]*stream{}}
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
	st.seq = sequencer{n: int64(r.u64()), last: int64(r.u64())}
	st.since = codec.Flag(r.u8())
	for _, f := range r.bytes(r.states) {
		st.flags = append(st.flags, codec.Flag(f))
	}
	st.lastSeq, st.lastRow, st.lastTime, st.heard = r.u64(), r.u32(), int64(r.u64()), r.flag()
	if r.channels > 0 {
		st.sample = r.floats(r.channels)
	}
	st.slots, st.rows = slices.Repeat([]int32{-1}, r.states), make([][]uint32, r.states)
	for i := range st.rows {
		if r.flag() {
			st.rows[i] = r.rowWords()
		}
	}
	switch {
	case r.err != nil:
	case src.streams[st.id] != nil:
		r.fail("stream %q of key %q twice", st.id, src.key)
	case st.seq.n < 0 || st.heardAt > p.clock || st.heardIn > p.done:
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
