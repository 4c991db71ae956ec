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

// Partition is the state of a partition: what is known of the keys that hash to
// it. All of it is a function of the partition's messages in order, whatever
// the shards and batches, so a replay brings it back.
type Partition struct {
	ID       int
	Sources  map[string]*Source
	recency  list.List     // of *Stream, the most recent at the front
	clock    uint64        // counts touches, to order streams by
	Done     uint64        // last input sequence number taken into account
	DoneTime int64         // when it was stored, ns
	heardNow time.Duration // when that came, by the owner's watch; no part of the state
	lossy    bool          // the input before the first message was not available

	HeldBytes int    // of held messages
	Losses    Losses // since the snapshot in the record

	Answered
	Want Expected

	Sum          wire.Digest
	dirty        []*Stream // whose bytes in sum are not theirs any more
	dirtySources []*Source

	rowsAway
	promotions []Promotion // those that answer, the oldest first; nil = there was none. No part of the digest

	Holder any // what the owner has of the partition; not looked at here
}

// Answered is what was answered before: a replay advances states in silence.
type Answered struct {
	ReplayTo uint64 // messages up to this one are answered already
	Asked    uint64 // of a backfill from the middle of a log: a key's first messages, if they are before this one, make no predictions, whatever releases them; else 0
	Skip     uint64 // predictions beyond replayTo that are answered already
}

// Expected is what a record says of a state: the digest that it has after an
// input message.
type Expected struct {
	At     uint64 // 0 = nothing, or it was compared
	Digest wire.Digest
}

// rowsAway is the account of state rows that are stored apart. Where a row is,
// is no state; but a snapshot names those that it does not hold.
type rowsAway struct {
	Away    int      // state rows of its streams that are stored apart
	Freed   []uint64 // those that were, since the last snapshot
	Unnamed bool     // rows were stored since then, which it does not name
}

// NewPartition is one that has had no message.
func NewPartition(id int) *Partition { return &Partition{ID: id, Sources: map[string]*Source{}} }

// Current reports whether a partition has taken something that no replay
// repeats: its state is the one that belongs to the position done.
func (p *Partition) Current() bool { return p.Done > 0 && p.Done >= p.ReplayTo && p.Skip == 0 }

// Touch notes that a stream's bytes have changed.
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

// Oldest are its streams, the one longest silent first.
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
	st.Since = src.flags
	if src.partial {
		st.Since |= outcome.FlagGap
	}
	st.element = p.recency.PushFront(st)
	src.Streams[st.ID] = st
	p.markHeard(st)
	return st
}

// forgetStream removes a stream, and its source with the source's last one
// unless that is keep.
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

// raiseFlag notes that something happened to a source: the next prediction of
// every sequence it may have touched will say so.
func (p *Partition) raiseFlag(src *Source, f outcome.Flag) {
	src.flags |= f
	for _, st := range src.Streams {
		st.Since |= f
		p.Touch(st)
	}
}
