package state

// Promotion is a readout that predicts for a partition's sequences.
type Promotion struct {
	Number  uint64 // 0 = the job's first readout
	Readout string // its name; empty = the job's first readout
	At      uint64 // the input message of the promotion
}

// MostReadouts limits the readouts active in a partition at the same time. Sequences
// that began under older readouts use the oldest remaining readout, so the memory of a
// partition and an engine is bounded.
const MostReadouts = 32

// addPromotion makes a readout predict for sequences that begin from now on; with now,
// for open sequences, too.
func (p *Partition) addPromotion(next Promotion, now bool) {
	var kept []Promotion
	if !now {
		kept = p.neededPromotions()
	}
	kept = append(kept, next)
	p.promotions = kept[max(0, len(kept)-MostReadouts):]
}

// Promotion returns the newest promotion of the partition.
func (p *Partition) Promotion() Promotion {
	if n := len(p.promotions); n > 0 {
		return p.promotions[n-1]
	}
	return Promotion{}
}

// ForgetPromotions makes the job's first readout predict.
func (p *Partition) ForgetPromotions() {
	p.promotions = nil
	for st := range p.Oldest() {
		st.began = nil
	}
}

// neededPromotions returns the promotions under which predictions may still be made:
// the newest, and the promotions of the open sequences.
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

// indexOfPromotion returns the index of the promotion that predicts for a sequence that
// began under promotion began: the same promotion, or the oldest later promotion that
// remains.
func indexOfPromotion(all []Promotion, began uint64) int {
	for i := range all {
		if all[i].Number >= began {
			return i
		}
	}
	return len(all) - 1
}

// noteOpened records that a stream without open sequences begins a sequence: the
// stream's earlier promotions are no longer needed. (Windows overlap: some of its
// states begin later.) So the kept promotions depend only on the open sequences, and
// stay the same after a restore, whose snapshot names no other promotions.
func (p *Partition) noteOpened(st *Stream) {
	if p.promotions == nil {
		return
	}
	for state := range st.Slots {
		p.noteBegun(st, int32(state))
	}
}

// noteBegun records that a sequence of one state of a stream begins.
func (p *Partition) noteBegun(st *Stream, state int32) {
	if p.promotions == nil {
		return
	}
	if st.began == nil {
		st.began = make([]uint64, len(st.Slots))
	}
	st.began[state] = p.Promotion().Number
}

// readoutOf names the readout that predicts for a stream's state; empty = the job's
// first readout.
func (p *Partition) readoutOf(st *Stream, state int32) string {
	if p.promotions == nil {
		return ""
	}
	return p.promotions[indexOfPromotion(p.promotions, st.beganUnder(int(state)))].Readout
}

// ReadoutOf names the readout that predicts for the open sequence of one state of a
// stream; empty = the job's first readout.
func (p *Partition) ReadoutOf(st *Stream, state int) string { return p.readoutOf(st, int32(state)) }

// beganUnder returns the promotion under which the sequence of a state began.
func (st *Stream) beganUnder(state int) uint64 {
	if st.began == nil {
		return 0
	}
	return st.began[state]
}
