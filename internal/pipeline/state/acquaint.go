package state

import (
	"cmp"
	"slices"

	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// CopyKnownKeys copies knowledge about keys from another decoded partition that has
// read the same input for longer and is at the same position: the last message number
// of each key and the messages held. Only keys without any used message are filled,
// with their streams, so a repeated message of such a key is recognized and the next
// message is in order. A stream whose sequence is open in the known partition continues
// in the middle of the sequence, and is flagged. The partition gets at most `most`
// streams; the streams silent longest are left out. The known partition has no rows
// here and must not be used afterwards. CopyKnownKeys returns the number of streams
// added.
func (p *Partition) CopyKnownKeys(known *Partition, sh *Shape, most int) (added int) {
	told := map[*Source]bool{}
	for key, src := range known.Sources { // messages of the key are held and wait for earlier messages
		if own := p.Sources[key]; own != nil && own.Last == 0 && src.Last > 0 {
			own.copyKnown(src)
			told[own] = true
		}
	}
	theirs := slices.Collect(known.Oldest())
	for _, st := range slices.Backward(theirs) {
		src := p.Sources[st.Source.Key]
		if src != nil && !told[src] {
			continue
		}
		var own *Stream
		if src != nil {
			own = src.Streams[st.ID]
		}
		if own == nil {
			if p.recency.Len() >= most {
				continue
			}
			if src == nil {
				src = &Source{Key: st.Source.Key, Part: p, Streams: map[string]*Stream{}}
				p.Sources[src.Key], told[src] = src, true
				src.copyKnown(st.Source)
			}
			own = p.addStream(src, st.ID, sh)
			own.Rows = make([][]uint32, sh.states)
			own.heardIn = st.heardIn
			added++
		}
		if st.Seq.Open() {
			own.Since |= outcome.FlagGap
		}
	}
	p.orderByHeardIn()
	return added
}

// copyKnown copies the state of a key from another partition.
func (src *Source) copyKnown(known *Source) {
	p := src.Part
	for i := range src.Held {
		p.HeldBytes -= src.Held[i].byteSize()
	}
	src.incarnation, src.Last, src.lost, src.flags = known.incarnation, known.Last, known.lost, src.flags|known.flags
	src.heardIn = max(src.heardIn, known.heardIn)
	src.Held = slices.Clone(known.Held)
	for i := range src.Held {
		p.HeldBytes += src.Held[i].byteSize()
	}
	p.touchSource(src)
}

// orderByHeardIn sorts the streams by the input message that each stream was last heard
// in.
func (p *Partition) orderByHeardIn() {
	all := slices.Collect(p.Oldest())
	slices.SortStableFunc(all, func(a, b *Stream) int { return cmp.Compare(a.heardIn, b.heardIn) })
	p.recency.Init()
	p.clock = 0
	for _, st := range all {
		p.clock++
		st.heardAt, st.element = p.clock, p.recency.PushFront(st)
	}
}
