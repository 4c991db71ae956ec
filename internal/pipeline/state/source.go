package state

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// Source is one key: what producers number their messages by.
type Source struct {
	Key         string
	Part        *Partition
	incarnation string
	Last        uint64       // last sequence number; 0 = none seen
	sum         checksum     // of the message that had it; no part of the state
	told        bool         // that its numbers came again with other content; no part of the state
	toldTimes   bool         // that its samples have times far from the clock; no part of the state
	partial     bool         // its first messages were not seen
	flags       outcome.Flag // for streams that appear in its next good message
	Held        []Held
	Streams     map[string]*Stream
	heardIn     uint64        // last input message of the key
	HeardTime   time.Duration // when that was, by the partition's watch

	hash        wire.Digest // as counted in the partition's
	dirty, gone bool
}

// checksum is a payload's, 1<<32 and above; 0 = not known, as after a restart.
type checksum uint64

func sumOf(data []byte) checksum { return 1<<32 | checksum(wire.CRC(data)) }

// noteArrived notes that a key's message has arrived in its turn.
func (src *Source) noteArrived(seq uint64, data []byte) { src.Last, src.sum = seq, sumOf(data) }

// differsFromArrived reports whether a message that comes again is another than the
// one that had its number, where that is known: of the last one, and of those
// that wait.
func (src *Source) differsFromArrived(seq uint64, data []byte) bool {
	if i, held := slices.BinarySearchFunc(src.Held, seq, bySeq); held {
		return !bytes.Equal(src.Held[i].msg.Data, data)
	}
	return seq == src.Last && src.sum != 0 && src.sum != sumOf(data)
}

// sortedStreams lists the source's streams in an order that does not depend on the
// map's.
func (src *Source) sortedStreams() []*Stream {
	all := make([]*Stream, 0, len(src.Streams))
	for _, st := range src.Streams {
		all = append(all, st)
	}
	slices.SortFunc(all, func(a, b *Stream) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// Held came before one with a lower number; it waits for that one. It
// is part of the partition's state: a snapshot holds it with its bytes.
type Held struct {
	seq uint64 // Eusn-Seq
	msg Message
}

// byteSize is what a held message counts against Rules.ReorderBytes.
func (h *Held) byteSize() int {
	n := len(h.msg.Data)
	for k, vs := range h.msg.Header {
		for _, v := range vs {
			n += len(k) + len(v)
		}
	}
	return n
}

func bySeq(h Held, seq uint64) int { return cmp.Compare(h.seq, seq) }

// holdsNumber reports whether a message of that number waits already.
func (src *Source) holdsNumber(seq uint64) bool {
	_, found := slices.BinarySearchFunc(src.Held, seq, bySeq)
	return found
}

// Turn is where a message's number stands among its key's.
type Turn uint8

// The turns.
const (
	InTurn   Turn = iota // the next number
	Repeat               // one that has come
	TooEarly             // others are missing before it
)

// TurnOf is where a number stands among those that have come.
func TurnOf(src *Source, n uint64) Turn {
	switch {
	case n <= src.Last || src.holdsNumber(n):
		return Repeat
	case n > src.Last+1:
		return TooEarly
	}
	return InTurn
}
