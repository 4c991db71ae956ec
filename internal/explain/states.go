package explain

import (
	"context"
	"fmt"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/replay"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// Open is an open sequence of a stream, and what would be predicted if it ended there.
type Open struct {
	Samples     uint64    `json:"samples"` // behind the model's front end
	Readout     string    `json:"readout"` // that would answer
	Class       string    `json:"class,omitempty"`
	Score       float32   `json:"score,omitempty"`
	Probability float32   `json:"probability,omitempty"`
	Scores      []float32 `json:"scores,omitempty"`
	Why         string    `json:"why,omitempty"` // why there are no scores
}

// StateAsOf computes the state that a partition had. A stream's open sequences are
// those of scores.
func (x *Explainer) StateAsOf(ctx context.Context, o replay.AsOf) (replay.StateAsOf, error) {
	m, err := x.models(ctx, &Found{})
	if err != nil {
		return replay.StateAsOf{}, err
	}
	o.Progress = x.Progress
	return replay.ComputeState(ctx, x.JS, &m.job, o)
}

// Scores are the open sequences of a stream in a state that StateAsOf has computed, by
// their scores now; none where the stream has none open.
func (x *Explainer) Scores(ctx context.Context, encoded []byte, stream string) (all []Open, err error) {
	sh, part, err := state.ShapeIn(encoded)
	if err != nil {
		return nil, err
	}
	p, err := state.Decode(encoded, sh, part)
	if err != nil {
		return nil, err
	}
	known := map[string]*models{}
	for st := range p.Oldest() {
		if st.ID != stream || !st.Seq.Open() {
			continue
		}
		for i, row := range st.Rows {
			if row == nil {
				continue
			}
			name := p.Answers(st, i)
			m := known[name]
			if m == nil {
				f := &Found{}
				f.Prediction.Readout = name
				if m, err = x.models(ctx, f); err != nil {
					return nil, err
				}
				known[name] = m
			}
			all = append(all, m.open(row))
		}
	}
	return all, nil
}

// open is what a readout says of a state.
func (m *models) open(row []uint32) Open {
	spec := m.job.Model.Network.Spec
	layout := spec.Layout()
	o := Open{Samples: layout.Steps(row), Readout: m.name}
	if m.linear == nil {
		o.Why = m.why
		return o
	}
	if err := layout.CheckState(spec, row); err != nil {
		o.Why = fmt.Sprint(err)
		return o
	}
	features := make([]float32, spec.FeatureCount())
	layout.FeaturesOf(spec, row, features)
	o.answer(m.linear, features)
	return o
}

// answer fills in what a readout says of an open sequence with these features.
func (o *Open) answer(l *readout.Linear, features []float32) {
	a := outcome.Answer{Flags: outcome.FlagEarly}
	scores := make([]float32, l.Columns())
	l.For(true).AnswerScores(scores, features)
	l.Answer(&a, scores, readout.Seen{Samples: int64(o.Samples)}, nil)
	o.Class, o.Score, o.Probability, o.Scores = l.Classes[a.Class], a.Score, a.Probability, scores
}
