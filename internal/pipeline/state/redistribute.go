package state

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// A job whose number of partitions changes has its keys in other partitions. A
// key's state goes with it as it is: its numbers, what waits for a missing
// message, its streams and their rows. What belongs to a partition as a whole is
// made anew: the order in which its streams were heard follows from the input
// messages that they were last heard in, and a partition may have lost input if
// one that it got keys from may have.

// Redistribute gives the keys of whole decoded partitions to new ones, those
// that of names, which are in the list to. The new partitions stand after input
// message at. The old ones must not be used after that.
func Redistribute(from []*Partition, to []int, of func(key string) int, at wire.Place) ([]*Partition, error) {
	all, lossy := make(map[int]*Partition, len(to)), false
	for _, id := range to {
		all[id] = NewPartition(id)
		all[id].Done, all[id].DoneTime = at.Seq, at.Stored
	}
	heard := map[int][]*Stream{}
	promotions, err := mergePromotions(from)
	if err != nil {
		return nil, err
	}
	for _, old := range from {
		switch {
		case old.Away > 0:
			return nil, ErrApart
		case old.Done > at.Seq:
			return nil, fmt.Errorf("%w: partition %d stands after input message %d, want at most %d", ErrState, old.ID, old.Done, at.Seq)
		}
		lossy = lossy || old.lossy
		for st := range old.Oldest() { // so that what was heard in one message keeps its order
			id := of(st.Source.Key)
			heard[id] = append(heard[id], st)
		}
		for key, src := range old.Sources {
			p := all[of(key)]
			if p == nil {
				return nil, fmt.Errorf("%w: key %q of partition %d belongs to partition %d, which is not among those to be made", ErrState, key, old.ID, of(key))
			}
			if p.Sources[key] != nil {
				return nil, fmt.Errorf("%w: key %q is in partition %d and in another one", ErrState, key, old.ID)
			}
			p.Sources[key], src.Part = src, p
			for i := range src.Held {
				p.HeldBytes += src.Held[i].byteSize()
			}
		}
	}
	made := make([]*Partition, 0, len(to))
	for _, id := range to {
		p := all[id]
		p.lossy, p.promotions = lossy, slices.Clone(promotions)
		slices.SortStableFunc(heard[id], func(a, b *Stream) int { return cmp.Compare(a.heardIn, b.heardIn) })
		for _, st := range heard[id] {
			p.clock++
			st.heardAt, st.element = p.clock, p.recency.PushFront(st)
		}
		made = append(made, p)
	}
	return made, nil
}

// mergePromotions are the promotions of partitions that become others. A promotion is
// the same in all of them, but some may never have had one that was followed by
// another soon: what answers for a sequence is written down before.
func mergePromotions(from []*Partition) ([]Promotion, error) {
	byNumber := map[uint64]Promotion{}
	var last uint64
	for i, old := range from {
		if now := old.Promotion().Number; i == 0 {
			last = now
		} else if now != last {
			return nil, fmt.Errorf("%w: partition %d has promotion %d, partition %d has promotion %d: let a worker complete the promotion first", ErrState, old.ID, now, from[0].ID, last)
		}
		for _, a := range old.promotions {
			a.At = max(a.At, byNumber[a.Number].At)
			byNumber[a.Number] = a
		}
		for st := range old.Oldest() {
			for state := range st.began {
				st.began[state] = old.promotions[indexOfPromotion(old.promotions, st.began[state])].Number
			}
			if st.began == nil && len(old.promotions) > 0 && old.promotions[0].Number > 0 {
				st.began = slices.Repeat([]uint64{old.promotions[0].Number}, len(st.Slots))
			}
		}
	}
	all := slices.SortedFunc(maps.Values(byNumber), func(a, b Promotion) int { return cmp.Compare(a.Number, b.Number) })
	return all[max(0, len(all)-MostReadouts):], nil
}

// Digest is the digest of a decoded partition, as records have it.
func (p *Partition) Digest() (wire.Digest, error) { return p.computeDigest(false) }

// DigestOfKeys is the digest of what a decoded partition knows of its keys and
// streams, whatever partition they are in: the sum over a job's partitions stays
// the same when keys go from one to another.
func (p *Partition) DigestOfKeys() (wire.Digest, error) { return p.computeDigest(true) }

func (p *Partition) computeDigest(anywhere bool) (sum wire.Digest, err error) {
	var buf []byte
	for _, src := range p.Sources {
		buf = AppendSource(append(buf[:0], 'k'), src)
		sum.Add(wire.HashOf(buf))
		for _, st := range src.Streams {
			at := st.heardAt
			if anywhere {
				st.heardAt = 0 // counts the partition's messages
			}
			buf, err = AppendStream(AppendString(append(buf[:0], 's'), src.Key), st, decodedHashes{})
			st.heardAt = at
			if err != nil {
				return sum, fmt.Errorf("pipeline: partition %d: state of stream %q: %w", p.ID, st.ID, err)
			}
			sum.Add(wire.HashOf(buf))
		}
	}
	return sum, nil
}

// decodedHashes writes the hash of a row of a partition that is in no engine.
type decodedHashes struct{}

func (decodedHashes) AppendRow(dst []byte, st *Stream, state int) ([]byte, error) {
	switch {
	case st.Rows[state] != nil:
		return wire.AppendDigest(append(dst, RowHere), wire.HashOf(AppendRowWords(nil, st.Rows[state]))), nil
	case st.IsAway(state):
		return wire.AppendDigest(append(dst, RowHere), st.Away[state].Hash), nil
	}
	return append(dst, RowNone), nil
}

// Adopt makes a partition's state that of another job's partition, which reads the
// same input and has taken promotion before. from is what another job's partition of
// that number has, or nothing. The readout that the other job began with becomes the
// one of promotion before, and its promotions follow that: so an event of the job that
// comes late finds its number behind. doubt says that input may have been lost to the
// other job before it had a message. at is where the new partition stands.
func Adopt(from []*Partition, id int, at wire.Place, before uint64, doubt bool) (*Partition, error) {
	made, err := Redistribute(from, []int{id}, func(string) int { return id }, at)
	if err != nil {
		return nil, err
	}
	p := made[0]
	p.lossy = p.lossy || doubt
	if before == 0 {
		return p, nil
	}
	if len(p.promotions) == 0 {
		p.promotions = []Promotion{{At: at.Seq}}
	}
	for i := range p.promotions {
		p.promotions[i].Number += before
	}
	for st := range p.Oldest() {
		for i := range st.began {
			st.began[i] += before
		}
	}
	return p, nil
}
