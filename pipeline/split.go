package pipeline

import "fmt"

// predictionBytes is a prediction's size without name and scores, padding
// included: a first guess of what fits a message.
const predictionBytes = 48

// encode writes as many predictions from on as fit one message, up to an
// input message's last if possible, and returns where it stopped.
func (e *emitter) encode(a *answer, from int) (body []byte, to int, err error) {
	size, to := 0, from
	for ; to < len(a.preds) && size <= e.limit; to++ {
		size += predictionBytes + len(a.preds[to].Stream) + 4*len(a.preds[to].Scores)
	}
	for {
		payload, err := e.encoder.Encode(a.preds[from:boundary(a.at, from, to)])
		if err != nil {
			return nil, 0, fmt.Errorf("pipeline: predictions: %w", err)
		}
		to = boundary(a.at, from, to)
		if len(payload) <= e.limit {
			return append([]byte(nil), payload...), to, nil
		}
		if to-from <= 1 {
			return nil, 0, fmt.Errorf("pipeline: one prediction takes %d bytes, the server takes messages of %d: raise its max_payload", len(payload), e.limit)
		}
		to = from + (to-from)/2
	}
}

// boundary moves to back to the end of an input message's predictions, unless
// none of [from, to) is one.
func boundary(at []uint64, from, to int) int {
	if to == len(at) {
		return to
	}
	for k := to; k > from; k-- {
		if at[k-1] != at[k] {
			return k
		}
	}
	return to
}

// advance is the record once the answer's predictions [from, to) are out. It
// names the snapshot that was stored meanwhile.
func (c *committer) advance(a *answer, from, to int, now *stored) record {
	r := c.record
	r.kind, r.position = kindCommit, advanceTo(r.position, a, from, to)
	switch {
	case to < len(a.preds):
		r.rests = place{a.at[to-1], a.stored[to-1]}
	case a.inSeq > 0: // there is a state
		r.mark, r.rests = mark{a.inSeq, a.inTime, a.digest, stateVersion}, place{}
	}
	r.losses = a.losses
	if r.inSeq > c.inSeq {
		r.emptyTo = 0
	}
	if to == len(a.preds) {
		r.emptyTo = max(r.emptyTo, a.emptyTo)
	}
	if now != nil && now.seq <= r.mark.seq {
		r.snap, r.snapSeq = now.name, now.seq
	}
	return r
}

// advanceTo is the position once the answer's predictions [from, to) are out.
func advanceTo(p position, a *answer, from, to int) position {
	p.outs += uint64(to - from)
	if to == len(a.preds) {
		p.inSeq, p.ahead = a.inSeq, 0
		return p
	}
	// The last input all of whose predictions are out, if there is one.
	for k := to - 1; k >= from; k-- {
		if a.at[k] < a.at[to] {
			p.inSeq, p.ahead = a.at[k], uint64(to-1-k)
			return p
		}
	}
	p.ahead += uint64(to - from)
	return p
}
