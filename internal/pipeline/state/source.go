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

// Source is one key; producers number their messages by key.
type Source struct {
	Key         string
	Part        *Partition
	incarnation string
	Last        uint64       // last sequence number; 0 = none seen
	sum         checksum     // of the last message; no part of the state
	told        bool         // repeated numbers with other content were reported; no part of the state
	toldTimes   bool         // samples with times far from the clock were reported; no part of the state
	lost        outcome.Flag // FlagGap, FlagPoisonSkipped: of messages whose samples may belong to streams unknown so far
	flags       outcome.Flag // for streams in the key's next usable message
	Held        []Held
	Streams     map[string]*Stream
	heardIn     uint64        // last input message of the key
	HeardTime   time.Duration // arrival by the partition's watch; no part of the state

	hash        wire.Digest // as counted in the partition's
	dirty, gone bool
}

// checksum is a payload's, 1<<32 and above; 0 = not known, as after a restart.
type checksum uint64

func sumOf(data []byte) checksum { return 1<<32 | checksum(wire.CRC(data)) }

// noteArrived records that a key's message has arrived in order.
func (src *Source) noteArrived(seq uint64, data []byte) { src.Last, src.sum = seq, sumOf(data) }

// differsFromArrived reports whether a repeated message differs from the message with
// the same number, if known: for the last message and for held messages.
func (src *Source) differsFromArrived(seq uint64, data []byte) bool {
	if i, held := slices.BinarySearchFunc(src.Held, seq, bySeq); held {
		return !bytes.Equal(src.Held[i].msg.Data, data)
	}
	return seq == src.Last && src.sum != 0 && src.sum != sumOf(data)
}

// sortedStreams lists the source's streams in an order independent of the map.
func (src *Source) sortedStreams() []*Stream {
	all := make([]*Stream, 0, len(src.Streams))
	for _, st := range src.Streams {
		all = append(all, st)
	}
	slices.SortFunc(all, func(a, b *Stream) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// Held is a message that arrived before a message with a lower number and waits for
// that message. It is part of the partition's state: a snapshot holds its bytes.
type Held struct {
	seq uint64 // Eusn-Seq
	msg Message
}

// byteSize is the held message's share of Rules.ReorderBytes.
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

// holdsNumber reports whether a message with that number is held.
func (src *Source) holdsNumber(seq uint64) bool {
	_, found := slices.BinarySearchFunc(src.Held, seq, bySeq)
	return found
}

// Turn is the order of a message's number among its key's numbers.
type Turn uint8

// The turns.
const (
	InTurn   Turn = iota // the next number
	Repeat               // the number has arrived before
	TooEarly             // earlier numbers are missing
)

// TurnOf compares a number with the numbers that have arrived.
func TurnOf(src *Source, n uint64) Turn {
	switch {
	case n <= src.Last || src.holdsNumber(n):
		return Repeat
	case n > src.Last+1:
		return TooEarly
	}
	return InTurn
}
