package pipeline

import (
	"bytes"
	"container/list"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
	"github.com/eusn-stream/eusn-stream/reservoir/monitor"
	"github.com/eusn-stream/eusn-stream/reservoir/sequence"
)

// partition is what a shard knows of the keys that hash to one partition. All
// of it is a function of the partition's messages in order, whatever the
// shards and batches, so a replay brings it back.
type partition struct {
	id       int
	index    int // among its shard's partitions
	tenure   *tenure
	sources  map[string]*source
	recency  list.List // of *stream, the most recent at the front
	clock    uint64    // counts touches, to order streams by
	done     uint64    // last input sequence number taken into account
	doneTime int64     // when it was stored, ns
	replayTo uint64    // messages up to this one are answered already
	skip     uint64    // predictions beyond replayTo that are answered already
	rests    uint64    // the message that these are of, where the record says it
	lossy    bool      // the input before the first message was not available

	heldBytes int // of held messages

	losses losses                   // since the snapshot in the record
	empty  atomic.Pointer[interval] // there is no input of the partition behind message from, up to message to
	tell   atomic.Bool              // the record is to say so
	told   atomic.Uint64            // up to where it does
	doubt  atomic.Bool              // the input's beginning is near

	// For Status, which reads them beside the work.
	came    lastPlace    // of the input
	unread  atomic.Int64 // input messages that the server had when the last one came
	waiting atomic.Int64 // those that came and are not answered

	sum          wire.Digest
	dirty        []*stream // whose bytes in sum are not theirs any more
	dirtySources []*source
	verifyAt     uint64 // after this message, sum must be want; 0 = checked
	want         wire.Digest
	wantVersion  uint64
	rebuiltSum   wire.Digest // as it was compared with want
	instead      string      // of the snapshot, where that is lost

	away    int      // state rows of its streams that are stored apart
	freed   []uint64 // those that were, since the last snapshot
	unnamed bool     // rows were stored since then, which it does not name, or its form has changed
	recast  bool     // its streams have remembered samples, or none, unlike the shard's; see shard.recast

	open, rebuilt, over bool // the shard has adopted it, replayed what it must, and dropped it
	watch

	sinceSnapshot int       // messages
	snapshotAt    time.Time // of the last one
}

// source is one key: what producers number their messages by.
type source struct {
	key         string
	part        *partition
	incarnation string
	last        uint64     // last sequence number; 0 = none seen
	sum         checksum   // of the message that had it; no part of the state
	told        bool       // that its numbers came again with other content; no part of the state
	partial     bool       // its first messages were not seen
	flags       codec.Flag // for streams that appear in its next good message
	held        []heldMessage
	streams     map[string]*stream
	heardIn     uint64        // last input message of the key
	heardTime   time.Duration // when that was, by the partition's watch

	hash        wire.Digest // as counted in the partition's
	dirty, gone bool
}

// checksum is a payload's, 1<<32 and above; 0 = not known, as after a restart.
type checksum uint64

func sumOf(data []byte) checksum { return 1<<32 | checksum(codec.CRC(data)) }

// took notes that a key's message has arrived in its turn.
func (src *source) took(seq uint64, data []byte) { src.last, src.sum = seq, sumOf(data) }

// contradicts reports whether a message that comes again is another than the
// one that had its number, where that is known: of the last one, and of those
// that wait.
func (src *source) contradicts(seq uint64, data []byte) bool {
	if i, held := slices.BinarySearchFunc(src.held, seq, bySeq); held {
		return !bytes.Equal(src.held[i].job.data, data)
	}
	return seq == src.last && src.sum != 0 && src.sum != sumOf(data)
}

// stream is one source of sequences. flags has one entry per state.
type stream struct {
	id        string
	source    *source
	element   *list.Element
	heardAt   uint64        // by the partition's clock
	heardIn   uint64        // last input message that reached it
	heardTime time.Duration // when that was, by the partition's watch; no part of the state
	seq       sequence.Sequencer
	slots     []int32    // one per state, -1 = none taken
	away      []rowRef   // one per state, where the row is stored apart; nil = none ever was
	rows      [][]uint32 // one per state, from a snapshot, until they are in slots
	flags     []codec.Flag
	since     codec.Flag // what happened after its last sample

	lastSeq  uint64 // Eusn-Seq, row and time of its last sample
	lastRow  uint32
	lastTime int64
	channels []monitor.Channel
	told     bool      // of samples unlike the training's, since the last sequence without; no part of the state
	sample   []float32 // its last sample, where missing values are held
	heard    bool      // sample is set

	newer, older *stream // among those with slots, by their last use

	hash        wire.Digest // as counted in the partition's
	dirty, gone bool
}

func newPartition(id, index int) *partition {
	return &partition{id: id, index: index, sources: map[string]*source{}}
}

// failed reports whether the partition is to take nothing more.
func (p *partition) failed() bool { return p.tenure != nil && p.tenure.failed.Load() }

// touch notes that a stream's bytes have changed.
func (p *partition) touch(st *stream) {
	if !st.dirty {
		st.dirty = true
		p.dirty = append(p.dirty, st)
	}
}

func (p *partition) touchSource(src *source) {
	if !src.dirty {
		src.dirty = true
		p.dirtySources = append(p.dirtySources, src)
	}
}

// heard makes a stream the most recent.
func (p *partition) heard(st *stream) {
	p.clock++
	st.heardAt, st.heardIn, st.heardTime = p.clock, p.done, p.now
	p.recency.MoveToFront(st.element)
	p.touch(st)
}

// source finds or makes the state of a key.
func (p *partition) source(key string) (src *source, isNew bool) {
	src = p.sources[key]
	if isNew = src == nil; isNew {
		key = strings.Clone(key) // the caller's is part of a larger string
		src = &source{key: key, part: p, streams: map[string]*stream{}}
		p.sources[key] = src
	}
	p.touchSource(src)
	return src, isNew
}

// addStream makes a stream of a source.
func (p *partition) addStream(src *source, id string, sh *shape) *stream {
	st := &stream{
		id: strings.Clone(id), source: src,
		slots: slices.Repeat([]int32{-1}, sh.states), flags: make([]codec.Flag, sh.states),
		since: src.flags, lastTime: codec.NoTime, channels: make([]monitor.Channel, sh.inputs),
	}
	if sh.channels > 0 {
		st.sample = make([]float32, sh.channels)
	}
	if src.partial {
		st.since |= codec.FlagGap
	}
	st.element = p.recency.PushFront(st)
	src.streams[st.id] = st
	p.heard(st)
	return st
}

// forget removes the stream that has been silent longest among those between
// two sequences, and its source's numbers with the source's last stream,
// except keep's, which is in use. A source that holds messages stays. It
// reports whether there was one.
func (p *partition) forget(keep *source) bool {
	for e := p.recency.Back(); e != nil; e = e.Prev() {
		st := e.Value.(*stream)
		if !st.forgettable() {
			continue
		}
		p.forgetStream(st, keep)
		return true
	}
	return false
}

// forgetStream removes a stream, and its source with the source's last one
// unless that is keep.
func (p *partition) forgetStream(st *stream, keep *source) {
	p.recency.Remove(st.element)
	delete(st.source.streams, st.id)
	p.sum.Sub(st.hash)
	st.gone = true
	if src := st.source; len(src.streams) == 0 && src != keep {
		p.forgetSource(src)
	}
}

func (p *partition) forgetSource(src *source) {
	delete(p.sources, src.key)
	p.sum.Sub(src.hash)
	src.gone = true
}

// forgettable reports whether a stream is between two sequences and nothing
// waits for it. Whether its slot is free again depends on the batch, and must
// not decide.
func (st *stream) forgettable() bool { return !st.seq.Open() && len(st.source.held) == 0 }

// raise notes that something happened to a source: the next prediction of
// every sequence it may have touched will say so.
func (p *partition) raise(src *source, f codec.Flag) {
	src.flags |= f
	for _, st := range src.streams {
		st.since |= f
		p.touch(st)
	}
}

// sorted lists the source's streams in an order that does not depend on the
// map's.
func (src *source) sorted() []*stream {
	all := make([]*stream, 0, len(src.streams))
	for _, st := range src.streams {
		all = append(all, st)
	}
	slices.SortFunc(all, func(a, b *stream) int { return strings.Compare(a.id, b.id) })
	return all
}
