package state

// Promotion is a readout that answers for a partition's sequences.
type Promotion struct {
	Number  uint64 // 0 = the readout that the job began with
	Readout string // its name; empty = that one
	At      uint64 // the input message that says so
}

// MostReadouts is how many readouts answer in a partition at the same time.
// Sequences that began under older ones get the oldest that is left: so what a
// partition and an engine need is bounded.
const MostReadouts = 32

// addPromotion gives the sequences that begin from now on to a readout; at once, also
// those that are open.
func (p *Partition) addPromotion(next Promotion, now bool) {
	var kept []Promotion
	if !now {
		kept = p.neededPromotions()
	}
	kept = append(kept, next)
	p.promotions = kept[max(0, len(kept)-MostReadouts):]
}

// Promotion is the newest that the partition has taken.
func (p *Partition) Promotion() Promotion {
	if n := len(p.promotions); n > 0 {
		return p.promotions[n-1]
	}
	return Promotion{}
}

// ForgetPromotions has the readout answer that the job began with.
func (p *Partition) ForgetPromotions() {
	p.promotions = nil
	for st := range p.Oldest() {
		st.began = nil
	}
}

// neededPromotions are the promotions under which predictions may still be made: the
// newest, and those of the open sequences.
func (p *Partition) neededPromotions() []Promotion {
	all := p.promotions
	if all == nil {
		all = []Promotion{{}}
	}
	used := make([]bool, len(all))
	used[len(all)-1] = true
	for e := p.recency.Front(); e != nil; e = e.Next() {
		st := e.Value.(*Stream)
		if !st.Seq.Open() {
			continue
		}
		for i := range st.Slots {
			used[indexOfPromotion(all, st.beganUnder(i))] = true
		}
	}
	kept := make([]Promotion, 0, len(all)+1)
	for i, u := range used {
		if u {
			kept = append(kept, all[i])
		}
	}
	return kept
}

// indexOfPromotion is the place of the promotion that answers for a sequence that began
// under one: that one, or the oldest of those that came later and are left.
func indexOfPromotion(all []Promotion, began uint64) int {
	for i := range all {
		if all[i].Number >= began {
			return i
		}
	}
	return len(all) - 1
}

// noteOpened notes that a stream begins that had no open sequence: what its states had
// before answers for nothing any more. (Windows overlap: some of its states begin
// later.) So which promotions are kept depends on the open sequences alone, and is
// the same after a restore, whose snapshot names no others.
func (p *Partition) noteOpened(st *Stream) {
	if p.promotions == nil {
		return
	}
	for state := range st.Slots {
		p.noteBegun(st, int32(state))
	}
}

// noteBegun notes that a sequence of one of a stream's states begins.
func (p *Partition) noteBegun(st *Stream, state int32) {
	if p.promotions == nil {
		return
	}
	if st.began == nil {
		st.began = make([]uint64, len(st.Slots))
	}
	st.began[state] = p.Promotion().Number
}

// readoutOf names the one that answers for a stream's state; empty = the one that
// the job began with.
func (p *Partition) readoutOf(st *Stream, state int32) string {
	if p.promotions == nil {
		return ""
	}
	return p.promotions[indexOfPromotion(p.promotions, st.beganUnder(int(state)))].Readout
}

// ReadoutOf names the readout that answers for the open sequence of one of a stream's
// states; empty = the one that the job began with.
func (p *Partition) ReadoutOf(st *Stream, state int) string { return p.readoutOf(st, int32(state)) }

// beganUnder is the promotion under which the sequence of a state began.
func (st *Stream) beganUnder(state int) uint64 {
	if st.began == nil {
		return 0
	}
	return st.began[state]
}
