package explain

import (
	"context"
	"fmt"

	"github.com/eusn-stream/eusn-stream/internal/engine"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/replay"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// OpenSequence is an open sequence of a stream, and the prediction if it ended now.
type OpenSequence struct {
	Samples     uint64    `json:"samples"` // after the model's front end
	Readout     string    `json:"readout"` // that would answer
	Class       string    `json:"class,omitempty"`
	Score       float32   `json:"score,omitempty"`
	Probability float32   `json:"probability,omitempty"`
	Scores      []float32 `json:"scores,omitempty"`
	Why         string    `json:"why,omitempty"` // reason for missing scores
}

// StateAsOf computes a past state of a partition. OpenSequences returns a stream's open sequences.
func (x *Explainer) StateAsOf(ctx context.Context, o replay.AsOf) (replay.StateAsOf, error) {
	m, err := x.findModel(ctx, &Found{})
	if err != nil {
		return replay.StateAsOf{}, err
	}
	o.Progress = x.Progress
	return replay.ComputeState(ctx, x.JS, &m.job, o)
}

// OpenSequences returns the open sequences of a stream in a state of StateAsOf, with their present
// scores.
func (x *Explainer) OpenSequences(ctx context.Context, encoded []byte, stream string) (all []OpenSequence, err error) {
	sh, part, err := state.ShapeIn(encoded)
	if err != nil {
		return nil, err
	}
	p, err := state.Decode(encoded, sh, part)
	if err != nil {
		return nil, err
	}
	known := map[string]*predictionModel{}
	for st := range p.Oldest() {
		if st.ID != stream || !st.Seq.Open() {
			continue
		}
		for i, row := range st.Rows {
			if row == nil {
				continue
			}
			name := p.ReadoutOf(st, i)
			m := known[name]
			if m == nil {
				f := &Found{}
				f.Prediction.Readout = name
				if m, err = x.findModel(ctx, f); err != nil {
					return nil, err
				}
				known[name] = m
			}
			all = append(all, m.predictOpen(row, st.Front))
		}
	}
	return all, nil
}

// predictOpen returns the readout's prediction for a state, with the state of the front end.
func (m *predictionModel) predictOpen(row []uint32, front []float64) OpenSequence {
	spec := m.job.Model.Network.Spec
	layout := engine.LayoutOf(spec)
	o := OpenSequence{Samples: layout.Steps(row), Readout: m.name}
	if m.linear == nil {
		o.Why = m.why
		return o
	}
	if m.linear.Segments != nil {
		o.Why = "the readout reads segments of whole sequences"
		return o
	}
	if err := layout.CheckState(spec, row); err != nil {
		o.Why = fmt.Sprint(err)
		return o
	}
	features := make([]float32, spec.FeatureCount())
	layout.FeaturesOf(spec, row, features)
	var statistics []float32
	if n := m.job.Model.Front.StatisticsSize(spec.Channels); n > 0 {
		statistics = make([]float32, n)
		m.job.Model.Front.Statistics(statistics, front, spec.Channels)
	}
	o.setAnswer(m.linear, features, statistics)
	return o
}

// setAnswer sets the readout's prediction for an open sequence with these features, and
// statistics of the samples.
func (o *OpenSequence) setAnswer(l *readout.Linear, features, statistics []float32) {
	a := outcome.Answer{Flags: outcome.FlagEarly}
	scores := make([]float32, l.Columns())
	l.For(true).AnswerScores(scores, features, statistics)
	l.Answer(&a, scores, readout.Seen{Samples: int64(o.Samples)}, nil)
	o.Class, o.Score, o.Probability, o.Scores = l.Classes[a.Class], a.Score, a.Probability, scores
}
