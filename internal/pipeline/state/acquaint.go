package state

import (
	"cmp"
	"slices"

	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// CopyKnownKeys tells a decoded partition what another one, which has read the same input for
// longer and stands at the same place, knows of keys: up to which number their messages
// have come, and which messages wait. Only keys of which the partition has used nothing
// get it, with their streams: so a message of theirs that comes again is known to be a
// repeat, and the next one to be in its turn. A stream whose sequence is open in the
// other partition goes on in the middle of it, and is flagged. The partition gets no
// more than most streams; those that were silent longest are left out. The other
// partition, of which there are no rows here, must not be used after that. It returns
// how many streams the partition got.
func (p *Partition) CopyKnownKeys(known *Partition, sh *Shape, most int) (added int) {
	told := map[*Source]bool{}
	for key, src := range known.Sources { // of which messages wait here, for others that came before
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

// copyKnown takes over what another partition knows of a key.
func (src *Source) copyKnown(known *Source) {
	p := src.Part
	for i := range src.Held {
		p.HeldBytes -= src.Held[i].byteSize()
	}
	src.incarnation, src.Last, src.partial, src.flags = known.incarnation, known.Last, known.partial, src.flags|known.flags
	src.heardIn = max(src.heardIn, known.heardIn)
	src.Held = slices.Clone(known.Held)
	for i := range src.Held {
		p.HeldBytes += src.Held[i].byteSize()
	}
	p.touchSource(src)
}

// orderByHeardIn makes the order in which streams were heard that of the input messages
// that they were last heard in.
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
