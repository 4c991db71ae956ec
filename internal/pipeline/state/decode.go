package state

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

	"github.com/eusn-stream/eusn-stream/internal/monitor"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/sequence"
)

// ErrState reports bytes that are no snapshot, or a damaged snapshot.
var ErrState = errors.New("pipeline: snapshot")

// ErrDamaged reports a snapshot that differs from the stored bytes.
var ErrDamaged = errors.New("its bytes do not match its sha256: it was damaged")

// ErrApart reports a snapshot that needs rows from other messages.
var ErrApart = fmt.Errorf("%w: some of its states are stored in other messages: use an exported snapshot", ErrState)

// Decode reads a snapshot into a partition whose streams have rows instead of slots.
// The allocated memory is bounded by a multiple of the snapshot's size.
func Decode(b []byte, sh Shape, id int) (*Partition, error) {
	body := len(b) - sha256.Size
	if body < len(snapshotMagic)+4 || string(b[:len(snapshotMagic)]) != snapshotMagic {
		return nil, fmt.Errorf("%w: not the state of a partition", ErrState)
	}
	v := binary.LittleEndian.Uint32(b[len(snapshotMagic):])
	if v != wire.StateVersion {
		return nil, fmt.Errorf("%w: %w", ErrState, &wire.VersionError{Found: uint64(v)})
	}
	if sum := sha256.Sum256(b[:body]); !bytes.Equal(sum[:], b[body:]) {
		return nil, fmt.Errorf("%w: %w", ErrState, ErrDamaged)
	}
	r := &stateReader{b: b[len(snapshotMagic)+4 : body], Shape: sh}
	p := r.readPartition(id)
	if r.err == nil {
		r.readPromotions(p)
	}
	if r.err == nil && len(r.b) > 0 {
		r.setError("%d bytes after its end", len(r.b))
	}
	if r.err != nil {
		return nil, fmt.Errorf("%w: %w", ErrState, r.err)
	}
	return p, nil
}

func (r *stateReader) readPartition(id int) *Partition {
	if n := r.readBytes(sha256.Size); r.err == nil && !bytes.Equal(n, r.network[:]) {
		r.setError("it was made with another network, policy, channels or arithmetic: run the model and kind of engine it was made with, or start a new job")
		return nil
	}
	p := NewPartition(id)
	if got := int(r.u32()); got != id {
		r.setError("it belongs to partition %d, want %d", got, id)
	}
	p.Done, p.DoneTime = r.u64(), int64(r.u64())
	for _, size := range []struct {
		what string
		want int
	}{{"words of a state", r.Words}, {"states of a stream", r.states}, {"channels", r.channels}, {"numbers of a front end", r.front}} {
		if got := r.u32(); int64(got) != int64(size.want) {
			r.setError("it has %d %s, want %d", got, size.what, size.want)
		}
	}
	r.clocked = r.readFlag()
	p.lossy, p.clock = r.readFlag(), r.u64()
	for range r.readCount(minSource) {
		src := r.readSource(p)
		if p.Sources[src.Key] != nil {
			r.setError("key %q twice", src.Key)
		}
		p.Sources[src.Key] = src
		p.touchSource(src)
		for range r.readCount(minStream + r.states*2 + 8*r.channels + 8*r.front) {
			r.readStream(p, src)
		}
		if r.err != nil {
			return nil
		}
	}
	p.sortRecency()
	return p
}

func (r *stateReader) readSource(p *Partition) *Source {
	src := &Source{Part: p, Key: r.readText(), incarnation: r.readText(), Last: r.u64(), heardIn: r.u64(), lost: r.readLost(), flags: r.readFlags(), Streams: map[string]*Stream{}}
	before := src.Last + 1 // held messages follow the missing message
	for range r.readCount(minHeld) {
		h := Held{seq: r.u64(), msg: Message{Seq: r.u64(), Key: src.Key}}
		if h.seq <= before {
			r.setError("key %q: held messages are not in order", src.Key)
		}
		before = h.seq
		var err error
		if h.msg.Header, err = parseHeader(r.readText()); err != nil {
			r.setError("key %q: %w", src.Key, err)
		}
		h.msg.Data = slices.Clone(r.readBytes(int(r.u32())))
		src.Held = append(src.Held, h)
		p.HeldBytes += h.byteSize()
	}
	return src
}

func (r *stateReader) readStream(p *Partition, src *Source) {
	st := &Stream{ID: r.readText(), Source: src, heardAt: r.u64(), heardIn: r.u64()}
	st.Seq = sequence.Sequencer{N: int64(r.u64()), Last: int64(r.u64())}
	st.Since = r.readFlags()
	for range r.states {
		st.Flags = append(st.Flags, r.readFlags())
	}
	st.lastSeq, st.lastRow, st.LastTime = r.u64(), r.u32(), int64(r.u64())
	if r.readFlag() {
		st.Sample = r.readFloats(r.channels)
	}
	st.Channels = make([]monitor.Channel, r.channels)
	for i := range st.Channels {
		st.Channels[i] = monitor.Channel{Last: math.Float32frombits(r.u32()), Run: r.u32()}
	}
	st.Clocks = r.readClocks()
	st.Front = r.frontState(st)
	st.Slots, st.Rows = slices.Repeat([]int32{-1}, r.states), make([][]uint32, r.states)
	for i := range st.Rows {
		switch kind := r.u8(); kind {
		case RowNone:
		case RowHere:
			st.Rows[i] = r.rowWords()
		case rowAway:
			if st.Away == nil {
				st.Away = make([]wire.RowRef, r.states)
			}
			st.Away[i] = wire.RowRef{Seq: r.u64(), Hash: wire.Digest{r.u64(), r.u64()}}
			p.Away++
			if st.Away[i].Seq == 0 {
				r.setError("stream %q: its state is stored nowhere", st.ID)
			}
		default:
			r.setError("stream %q: a state of unknown kind %d", st.ID, kind)
		}
	}
	switch {
	case r.err != nil:
	case src.Streams[st.ID] != nil:
		r.setError("stream %q of key %q twice", st.ID, src.Key)
	case st.Seq.N < 0 || st.heardAt > p.clock || st.heardIn > p.Done:
		r.setError("stream %q of key %q: a count is out of range", st.ID, src.Key)
	default:
		src.Streams[st.ID] = st
		st.element = p.recency.PushFront(st)
		p.Touch(st)
	}
}

// readClocks reads the times of open sequences. The times are unknown in a state
// written by a model without a sampling rate; times that the model does not use are
// dropped.
func (r *stateReader) readClocks() []monitor.Clock {
	if !r.timed && !r.clocked {
		return nil
	}
	all := make([]monitor.Clock, r.states)
	for i := range all {
		if all[i].Lose(); r.clocked {
			all[i] = monitor.Clock{First: int64(r.u64()), Longest: int64(r.u64()), Count: r.u32()}
		}
	}
	if !r.timed {
		return nil
	}
	return all
}

// readFrontState reads the state from which a stream's front end continues.
func (r *stateReader) frontState(st *Stream) []float64 {
	if r.front == 0 {
		return nil
	}
	v := make([]float64, r.front)
	for i := range v {
		v[i] = math.Float64frombits(r.u64())
	}
	if err := sequence.CheckFrontState(v); err != nil {
		r.setError("stream %q: %w", st.ID, err)
	}
	return v
}

func (r *stateReader) rowWords() []uint32 {
	raw := r.readBytes(4 * r.Words)
	row := make([]uint32, len(raw)/4)
	for i := range row {
		row[i] = binary.LittleEndian.Uint32(raw[4*i:])
	}
	return row
}

func (r *stateReader) readFloats(n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = math.Float32frombits(r.u32())
	}
	return v
}

// minPromotion is the smallest encoded promotion.
const minPromotion = 8 + 8 + 4

// readPromotions reads the output of appendPromotions.
func (r *stateReader) readPromotions(p *Partition) {
	var before uint64
	for i := range r.readCount(minPromotion) {
		n := Promotion{Number: r.u64(), At: r.u64(), Readout: r.readText()}
		if i > 0 && n.Number <= before || n.At > p.Done || n.Number == 0 && n.Readout != "" || !wire.IsReadout(n.Readout) {
			r.setError("promotion %d of readout %q, by input message %d, is not one that can follow promotion %d", n.Number, wire.OneLine(n.Readout), n.At, before)
			return
		}
		before = n.Number
		p.promotions = append(p.promotions, n)
	}
	if p.promotions == nil {
		return
	}
	if len(p.promotions) > MostReadouts || before == 0 {
		r.setError("%d promotions, the last one with the number %d", len(p.promotions), before)
	}
	for _, key := range slices.Sorted(maps.Keys(p.Sources)) {
		for _, st := range p.Sources[key].sortedStreams() {
			if r.readFlag() {
				r.readBegan(st, before)
			}
		}
	}
}

// readBegan reads the promotion under which each sequence of a stream began.
func (r *stateReader) readBegan(st *Stream, last uint64) {
	raw := r.readBytes(8 * r.states)
	if r.err != nil {
		return
	}
	st.began = make([]uint64, r.states)
	for i := range st.began {
		if st.began[i] = binary.LittleEndian.Uint64(raw[8*i:]); st.began[i] > last {
			r.setError("stream %q: a sequence began under promotion %d, the last one is %d", st.ID, st.began[i], last)
			return
		}
	}
}

// sortRecency restores the order in which the streams were heard.
func (p *Partition) sortRecency() {
	all := make([]*Stream, 0, p.recency.Len())
	for e := p.recency.Front(); e != nil; e = e.Next() {
		all = append(all, e.Value.(*Stream))
	}
	slices.SortFunc(all, func(a, b *Stream) int { return cmp.Compare(a.heardAt, b.heardAt) })
	p.recency.Init()
	for _, st := range all {
		st.element = p.recency.PushFront(st)
	}
}

// StoredRows returns the rows of a decoded partition that are stored outside the
// snapshot.
func (p *Partition) StoredRows() map[uint64]bool {
	all := make(map[uint64]bool, p.Away)
	for e := p.recency.Front(); e != nil; e = e.Next() {
		for _, ref := range e.Value.(*Stream).Away {
			if ref.Seq > 0 {
				all[ref.Seq] = true
			}
		}
	}
	return all
}

// EncodeRewound encodes a decoded snapshot for an unread input. Held messages stay,
// with input position 0, because the position belonged to the old input. Promotions of
// the old job are dropped: the new job begins with its own readout.
func (p *Partition) EncodeRewound(sh Shape) ([]byte, error) {
	p.ForgetPromotions()
	p.Done, p.DoneTime = 0, 0
	for _, src := range p.Sources {
		src.heardIn = 0
		for i := range src.Held {
			src.Held[i].msg.Seq = 0
		}
	}
	for e := p.recency.Front(); e != nil; e = e.Next() {
		e.Value.(*Stream).heardIn = 0
	}
	return p.Encode(sh, DecodedRows{})
}

// TakeOver replaces the partition's state with the state of a snapshot.
func (p *Partition) TakeOver(from *Partition) {
	p.Sources, p.clock, p.lossy = from.Sources, from.clock, p.lossy || from.lossy
	p.Done, p.DoneTime, p.HeldBytes = from.Done, from.DoneTime, from.HeldBytes
	p.Away, p.promotions = from.Away, from.promotions
	p.dirty, p.dirtySources = from.dirty, from.dirtySources
	p.recency.Init()
	for e := from.recency.Front(); e != nil; e = e.Next() {
		st := e.Value.(*Stream)
		st.element = p.recency.PushBack(st)
	}
}
