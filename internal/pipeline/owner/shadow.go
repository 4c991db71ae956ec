package owner

import (
	"cmp"
	"context"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/stats"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/readout"
)

// shadowing publishes the shadows' predictions before the commits of the same
// predictions: a committed prediction missing from the shadow's NATS stream was
// skipped, and counted. It belongs to an emitter.
type shadowing struct {
	out      *store.Shadows // nil: a stage without
	counts   *stats.Shadows
	meta     codec.PredictionMeta
	first    string // name of the job's first readout in predictions
	limit    int    // bytes of a message's body
	encoders map[string]*codec.PredictionEncoder
	rows     []codec.Prediction
	details  []codec.Details // of rows
	sets     []int32         // of rows
}

// SetShadows sets the destination of the shadows' predictions. Call SetShadows before
// the emitter runs.
func (e *Emitter) SetShadows(out *store.Shadows, counts *stats.Shadows) {
	e.shadows.out, e.shadows.counts = out, counts
	out.Count = func(shadow string, stored, missed int) {
		n := counts.CountersOf(shadow)
		n.Predictions.Add(uint64(stored))
		n.Missed.Add(uint64(missed))
	}
}

// publishShadows sends the shadows' results for the predictions [from, to) of an
// answer, the last of which will have the number outs. A fault concerns only the
// shadow.
func (s *shadowing) publishShadows(b *shard.Batch, a *shard.Answer, from, to int, outs uint64) {
	if s.out == nil || len(b.Shadows)+len(b.Refused) == 0 || from == to {
		return
	}
	for k := range b.Refused {
		s.out.Count(b.Refused[k].Name, 0, to-from)
	}
	ready := s.out.IsReady()
	for k := range b.Shadows {
		one := &b.Shadows[k]
		s.fillRows(b, a, k, from, to)
		for i := range s.rows {
			if s.rows[i].Class == s.details[i].Active {
				s.counts.CountersOf(one.Name).Agreeing.Add(1)
			}
		}
		if !ready {
			s.out.Count(one.Name, 0, len(s.rows))
			continue
		}
		s.sendShadow(one, a.Part.State.ID, s.rows, outs)
	}
}

// fillRows makes rows of a shadow's scores.
func (s *shadowing) fillRows(b *shard.Batch, a *shard.Answer, k, from, to int) {
	s.rows, s.details, s.sets = s.rows[:0], s.details[:0], s.sets[:0]
	l := b.Shadows[k].Linear
	for i := from; i < to; i++ {
		p := &a.Preds[i]
		row := *p
		row.Readout = ""
		scores, novelty := a.ShadowScores(len(b.Shadows), k, i)
		seen := readout.Seen{Samples: a.Length[i], Judged: novelty != shard.NotJudged, Novelty: novelty, Statistics: a.StatisticsOf(i)} // alarms read no shadows: their inputs are the same
		s.sets = l.Answer(&row.Answer, scores, seen, s.sets)
		s.rows = append(s.rows, row)
		s.details = append(s.details, codec.Details{Active: p.Class, ActiveReadout: cmp.Or(p.Readout, s.first), Began: a.Began[i], Input: a.At[i], Stored: a.Stored[i]})
	}
	for i := range s.rows {
		s.rows[i].Details = &s.details[i]
	}
}

// sendShadow publishes rows in as many messages as the server's limit asks for.
func (s *shadowing) sendShadow(one *shard.Shadow, part int, rows []codec.Prediction, outs uint64) {
	enc, err := s.encoderOf(one)
	var body []byte
	if err == nil {
		body, err = enc.Encode(rows)
	}
	switch half := len(rows) / 2; {
	case err == nil && len(body) <= s.limit:
		s.out.Send(one.Name, part, len(rows), outs, append([]byte(nil), body...))
	case err == nil && half > 0:
		s.sendShadow(one, part, rows[:half], outs-uint64(len(rows)-half))
		s.sendShadow(one, part, rows[half:], outs)
	default:
		s.out.Count(one.Name, 0, len(rows))
	}
}

func (s *shadowing) encoderOf(one *shard.Shadow) (*codec.PredictionEncoder, error) {
	if enc := s.encoders[one.Name]; enc != nil {
		return enc, nil
	}
	meta := s.meta
	meta.Readout, meta.First, meta.Shadow = one.Linear.Name, one.Name, true
	enc, err := codec.NewPredictionEncoder(meta)
	if len(s.encoders) >= 2*wire.MostShadows {
		clear(s.encoders) // drop the encoders of previous shadows
	}
	if err == nil {
		s.encoders[one.Name] = enc
	}
	return enc, err
}

// awaitShadows waits briefly for the server's acknowledgements.
func (s *shadowing) awaitShadows(ctx context.Context) {
	if s.out != nil {
		s.out.Await(ctx)
	}
}
