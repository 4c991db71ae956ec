package state

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// When a job's number of partitions changes, keys move to other partitions. A key's
// state moves unchanged: message numbers, held messages, streams and their rows. State
// of a whole partition is rebuilt: the order in which its streams were heard follows
// from the input messages that they were last heard in, and a partition may have lost
// input if any source of its keys may have.

// Redistribute moves the keys of whole decoded partitions to the new partitions in the
// list to; of returns the new partition of a key. The new partitions continue after
// input message at. The old partitions must not be used afterwards.
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
		for st := range old.Oldest() { // so that streams heard in one message keep their order
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

// mergePromotions merges the promotions of partitions that are redistributed. A
// promotion is equal in all partitions, but a partition may have skipped a promotion
// that was soon followed by another; the readouts of open sequences are stored first.
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

// Digest returns the digest of a decoded partition in the form of records.
func (p *Partition) Digest() (wire.Digest, error) { return p.computeDigest(false) }

// DigestOfKeys returns the digest of a decoded partition's keys and streams,
// independent of the partition: the sum over a job's partitions stays the same when
// keys move between partitions.
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

// Adopt turns the state of another job's partition, which reads the same input and has
// used promotion before, into a partition's state. from is the other job's partition of
// that number, or nothing. The other job's first readout becomes the readout of
// promotion before, and its promotions follow, so a late event of the job finds its
// number already used. doubt: input may have been lost to the other job before its
// first message. at is the position of the new partition.
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
