package pipelinetest

import (
	"testing"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/testing/sequencetest"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
	"github.com/eusn-stream/eusn-stream/reservoir/cpu"
)

// rateTolerance is the default of pipeline.Config.RateTolerance, as a share.
const rateTolerance = .05

// Direct returns the predictions that the stage must make, from an engine driven by hand:
// one slot per state, one call per sample.
func Direct(t testing.TB, m *reservoir.Model, streams []Recording, seqOf map[string][]Packet) map[string][]codec.Prediction {
	t.Helper()
	out := map[string][]codec.Prediction{}
	for _, r := range streams {
		type place struct {
			seq uint64
			row uint32
		}
		var places []place
		for _, p := range seqOf[r.Name] {
			for row := range p.Batch.Rows {
				places = append(places, place{p.Seq, uint32(row)})
			}
		}
		spans := sequencetest.Spans(m.Policy, r.Times, r.Ends, false)
		for i, sp := range spans {
			linear := m.Readouts[0].For(!sp.End)
			scores := directScores(t, m, linear, Behind(m, r.X, sp.From, sp.To))
			class := linear.Class(scores)
			var at place
			if len(places) > 0 {
				at = places[sp.To-1]
			}
			p := codec.Prediction{
				Stream: r.Name, Seq: at.seq, Row: at.row, Time: r.Times[sp.To-1],
				Answer: outcome.Answer{Class: int32(class), Score: linear.Score(scores, class), Scores: scores, Probability: linear.Probability(scores), Flags: Unlike(m, r.X[2*sp.From:2*sp.To])},
			}
			if m.Training.Rate > 0 && sequencetest.OffRate(m.Training, rateTolerance, sequencetest.IntervalTimes(m.Policy, spans, i, r.Times)) {
				p.Flags |= outcome.FlagRate
			}
			if linear.Abstains(p.Probability) {
				p.Flags |= outcome.FlagAbstain
			}
			if !sp.End {
				p.Flags |= outcome.FlagEarly
				if m.Policy.Kind == reservoir.Window && sp.To < m.Policy.Length {
					p.Flags |= outcome.FlagWarmUp
				}
				var decided bool
				if p.Change, decided = m.Readouts[0].Change(int64(sp.To-sp.From), scores); decided {
					p.Flags |= outcome.FlagDecided
				}
			}
			out[r.Name] = append(out[r.Name], p)
		}
	}
	return out
}

// directScores returns the scores of a sequence with the network's inputs x.
func directScores(t testing.TB, m *reservoir.Model, linear *readout.Linear, x []float32) []float32 {
	t.Helper()
	e, err := cpu.New(m.Network, 1, cpu.Options{Kind: cpu.Generic})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.SetReadouts([]*readout.Linear{linear}); err != nil {
		t.Fatal(err)
	}
	scores := make([]float32, e.ScoreWidth())
	if err := e.Advance(nil, []reservoir.Run{{Reset: true, Emit: true}}, scores); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(x); i += 2 {
		if err := e.Advance(x[i:i+2], []reservoir.Run{{Emit: true, To: 1}}, scores); err != nil {
			t.Fatal(err)
		}
	}
	return scores
}

// Clean removes a flag from predictions before a comparison.
func Clean(all map[string][]codec.Prediction, f outcome.Flag) map[string][]codec.Prediction {
	for _, ps := range all {
		for i := range ps {
			ps[i].Flags &^= f
		}
	}
	return all
}

// Count counts predictions.
func Count(m map[string][]codec.Prediction) (n int) {
	for _, ps := range m {
		n += len(ps)
	}
	return n
}
