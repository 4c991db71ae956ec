package state

import (
	"container/list"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/internal/track"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// Partition is the state of a partition: the state of the keys that hash to it. It is a
// function of the partition's messages in order, independent of shards and batches, so
// a replay restores it.
type Partition struct {
	ID       int
	Sources  map[string]*Source
	recency  list.List     // of *Stream, the most recent at the front
	clock    uint64        // counts touches, to order streams by
	Done     uint64        // last input sequence number taken into account
	DoneTime int64         // time at which the message was stored, ns
	heardNow time.Duration // arrival of the message by the owner's watch; no part of the state
	lossy    bool          // the input before the first message was not available

	HeldBytes int    // of held messages
	Losses    Losses // since the snapshot in the record

	Answered
	Want Expected

	Sum          wire.Digest
	dirty        []*Stream // streams whose bytes in sum are outdated
	dirtySources []*Source

	rowsAway
	promotions []Promotion // active promotions, the oldest first; nil = none. No part of the digest

	Holder any // the owner's data for the partition; not used here
}

// Answered describes the input answered earlier: a replay advances states without
// output.
type Answered struct {
	ReplayTo uint64 // messages up to this message are answered
	Asked    uint64 // for a backfill from the middle of a log, otherwise 0: a key's first messages make no predictions if they precede this message, even when released later
	Skip     uint64 // predictions after ReplayTo that are answered
}

// Expected is the state's expectation in a record: the digest after an input message.
type Expected struct {
	At     uint64 // 0 = nothing to compare, or compared
	Digest wire.Digest
}

// rowsAway counts the state rows stored outside the snapshot. A row's location is no
// state, but a snapshot names the rows that it does not hold.
type rowsAway struct {
	Away    int      // stored state rows of the partition's streams
	Freed   []uint64 // rows no longer stored, since the last snapshot
	Unnamed bool     // rows stored since the last snapshot, which does not name them
}

// NewPartition returns a partition without messages.
func NewPartition(id int) *Partition { return &Partition{ID: id, Sources: map[string]*Source{}} }

// Current reports whether a partition has used input that no replay repeats: its state
// belongs to the position done.
func (p *Partition) Current() bool { return p.Done > 0 && p.Done >= p.ReplayTo && p.Skip == 0 }

// Touch marks a stream's bytes as changed.
func (p *Partition) Touch(st *Stream) {
	if !st.dirty {
		st.dirty = true
		p.dirty = append(p.dirty, st)
	}
}

func (p *Partition) touchSource(src *Source) {
	if !src.dirty {
		src.dirty = true
		p.dirtySources = append(p.dirtySources, src)
	}
}

// markHeard makes a stream the most recent.
func (p *Partition) markHeard(st *Stream) {
	p.clock++
	st.heardAt, st.heardIn, st.HeardTime = p.clock, p.Done, p.heardNow
	p.recency.MoveToFront(st.element)
	p.Touch(st)
}

// Len is how many streams the partition remembers.
func (p *Partition) Len() int { return p.recency.Len() }

// Oldest iterates over the streams, the stream silent longest first.
func (p *Partition) Oldest() iter.Seq[*Stream] {
	return func(yield func(*Stream) bool) {
		for e := p.recency.Back(); e != nil && yield(e.Value.(*Stream)); {
			e = e.Prev()
		}
	}
}

// Clear forgets everything.
func (p *Partition) Clear() {
	p.Sources = nil
	p.recency.Init()
}

// findSource finds or makes the state of a key.
func (p *Partition) findSource(key string) (src *Source, isNew bool) {
	src = p.Sources[key]
	if isNew = src == nil; isNew {
		key = strings.Clone(key) // the caller's is part of a larger string
		src = &Source{Key: key, Part: p, Streams: map[string]*Stream{}}
		p.Sources[key] = src
	}
	p.touchSource(src)
	return src, isNew
}

// addStream makes a stream of a source.
func (p *Partition) addStream(src *Source, id string, sh *Shape) *Stream {
	st := &Stream{
		ID: strings.Clone(id), Source: src,
		Slots: slices.Repeat([]int32{-1}, sh.states), Track: track.New(sh.states, sh.channels, sh.front, sh.timed),
	}
	st.Since = src.flags | src.lost
	st.element = p.recency.PushFront(st)
	src.Streams[st.ID] = st
	p.markHeard(st)
	return st
}

// forgetStream removes a stream, and with its last stream the source unless the source
// is keep.
func (p *Partition) forgetStream(st *Stream, keep *Source) {
	p.recency.Remove(st.element)
	delete(st.Source.Streams, st.ID)
	p.Sum.Sub(st.hash)
	st.gone = true
	if src := st.Source; len(src.Streams) == 0 && src != keep {
		p.forgetSource(src)
	}
}

func (p *Partition) forgetSource(src *Source) {
	delete(p.Sources, src.Key)
	p.Sum.Sub(src.hash)
	src.gone = true
}

// raiseFlag flags a source: the next prediction of every sequence that may be affected
// carries the flag. A stream without a message so far may have begun in a lost message,
// and may be silent for any number of messages: the first sequence of each later stream
// carries the flag.
func (p *Partition) raiseFlag(src *Source, f outcome.Flag) {
	src.flags, src.lost = src.flags|f, src.lost|f
	for _, st := range src.Streams {
		st.Since |= f
		p.Touch(st)
	}
}
