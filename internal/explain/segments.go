package explain

import (
	"fmt"
	"math"

	"github.com/eusn-stream/eusn-stream/readout"
)

// SegmentScore has the contributions of a sequence's segments to the scores of the predicted class
// and of the next best class, for a readout that reads segments instead of the network.
type SegmentScore struct {
	Class    string  `json:"class"`
	RunnerUp string  `json:"runner_up"`
	Bias     Part    `json:"bias"`
	Sum      Part    `json:"sum"`      // of bias and contributions, in float64
	Score    Part    `json:"score"`    // computed by the readout
	Rounding float64 `json:"rounding"` // maximum difference of Sum and Score

	Channels []Share `json:"channels"` // the strongest first
	Segments []Share `json:"segments"` // in the order of time
}

// explainSegments divides the scores of a sequence by channels and by segments.
func (m *predictionModel) explainSegments(c *candidate) *SegmentScore {
	l, model, statistics := m.linear, m.job.Model, c.q.Statistics
	scores := make([]float32, l.Columns())
	l.AnswerScores(scores, c.features, statistics)
	p, class, other := newPair(l, scores)
	s := &SegmentScore{Class: l.Classes[class], RunnerUp: l.Classes[other]}
	s.Score.addScores(p.parts(func(c int) float64 { return float64(scores[c]) }))
	s.Bias.addScores(p.parts(func(c int) float64 { return float64(l.Intercept[c]) }))
	s.Sum = s.Bias
	channels, names, n := map[int]*Share{}, model.Channels, len(statistics)
	perSegment := n / model.Front.Segments.Count
	length := model.Front.Segments.Length * max(1, model.Front.Decimate)
	for j, v := range statistics {
		if j%perSegment == 0 {
			k := len(s.Segments)
			s.Segments = append(s.Segments, Share{What: fmt.Sprintf("samples %d to %d", k*length+1, (k+1)*length)})
		}
		classPart, otherPart := p.parts(func(c int) float64 { return segmentPart(l.Segments, c, j, v) })
		s.Sum.addScores(classPart, otherPart)
		s.Segments[len(s.Segments)-1].addFeature(classPart, otherPart)
		channel := j % perSegment * len(names) / perSegment
		ensureShare(channels, channel, names[channel]).addFeature(classPart, otherPart)
	}
	s.Channels = sortShares(channels)
	// One rounding to float32 of each score, and of each sum of the bias with float64 terms.
	s.Rounding = (math.Abs(s.Score.Class) + math.Abs(s.Score.RunnerUp)) / (1 << 23)
	return s
}

// segmentPart is the term of statistic j with the value v in the score of a column.
func segmentPart(w *readout.SegmentWeights, column, j int, v float32) float64 {
	return float64(w.Weights[column*len(w.Center)+j]) * (float64(v) - float64(w.Center[j]))
}
