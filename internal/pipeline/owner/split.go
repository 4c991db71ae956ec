package owner

import (
	"fmt"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Splitter encodes predictions into messages within the server's size limit.
type Splitter struct {
	Encoder *codec.PredictionEncoder
	Named   *codec.PredictionEncoder // for predictions with the name of a readout
	Limit   int                      // bytes of a message's body
}

// predictionBytes is a prediction's size without name and scores, padding included: a
// first estimate of how many fit in a message.
const predictionBytes = 48

// noveltyBytes is the size of the two fields filled by some models.
const noveltyBytes = 8

// Encode writes as many predictions from index from as fit in one message, if possible
// up to the last prediction of an input message, and returns the index after the last.
func (e *Splitter) Encode(a *shard.Answer, from int) (body []byte, to int, err error) {
	enc := e.Encoder
	if a.Promoted.Number > 0 {
		enc = e.Named
	}
	size, to := 0, from
	for ; to < len(a.Preds) && size <= e.Limit; to++ {
		size += predictionBytes + len(a.Preds[to].Stream) + len(a.Preds[to].Readout) + 4*len(a.Preds[to].Scores) + 4*len(a.Preds[to].Set) + 4*len(a.Preds[to].Inputs)
		if a.Preds[to].NoveltyP != 0 {
			size += noveltyBytes
		}
	}
	for {
		payload, err := enc.Encode(a.Preds[from:findBoundary(a.At, from, to)])
		if err != nil {
			return nil, 0, fmt.Errorf("pipeline: predictions: %w", err)
		}
		to = findBoundary(a.At, from, to)
		if len(payload) <= e.Limit {
			return append([]byte(nil), payload...), to, nil
		}
		if to-from <= 1 {
			return nil, 0, fmt.Errorf("pipeline: one prediction has %d bytes, but the server accepts messages of at most %d: raise its max_payload", len(payload), e.Limit)
		}
		to = from + (to-from)/2
	}
}

// findBoundary moves to back to the end of an input message's predictions, if [from,
// to) contains such an end.
func findBoundary(at []uint64, from, to int) int {
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

// recordAfter returns the record after r once the answer's predictions [from, to) are
// published. It names now, a snapshot stored meanwhile, if any; emptyTo is the message
// up to which the partition has no input after the answer, 0 = unknown.
func recordAfter(r wire.Record, a *shard.Answer, from, to int, now *stored, emptyTo uint64) wire.Record {
	before := r.InSeq
	r.Kind, r.Position = wire.KindCommit, advanceTo(r.Position, a, from, to)
	switch {
	case to < len(a.Preds):
		r.Rests = wire.Place{Seq: a.At[to-1], Stored: a.Stored[to-1]}
	case a.InSeq > 0: // there is a state
		r.Mark, r.Rests = wire.Mark{Seq: a.InSeq, Time: a.InTime, Digest: a.Digest}, wire.Place{}
	}
	if to == len(a.Preds) && a.Promoted.Number > 0 {
		r.Promoted = promotedAfter(r.Promoted, a.Promoted)
	}
	r.Losses = a.Losses
	if r.InSeq > before {
		r.EmptyTo = 0
	}
	if to == len(a.Preds) {
		r.EmptyTo = max(r.EmptyTo, emptyTo)
	}
	if now != nil && now.seq <= r.Mark.Seq {
		r.Snap, r.SnapSeq = now.name, now.seq
	}
	return r
}

// advanceTo is the position once the answer's predictions [from, to) are out.
func advanceTo(p wire.Position, a *shard.Answer, from, to int) wire.Position {
	p.Outs += uint64(to - from)
	if to == len(a.Preds) {
		p.InSeq, p.Ahead = a.InSeq, 0
		return p
	}
	// The last input message with all predictions published, if any.
	for k := to - 1; k >= from; k-- {
		if a.At[k] < a.At[to] {
			p.InSeq, p.Ahead = a.At[k], uint64(to-1-k)
			return p
		}
	}
	p.Ahead += uint64(to - from)
	return p
}

// promotedAfter returns the promotions of a record once the state has used a promotion;
// the record's writer may know a later promotion.
func promotedAfter(before, now wire.Promoted) wire.Promoted {
	now.Known = max(before.Known, now.Number)
	return now
}
