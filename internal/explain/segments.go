package explain

import (
	"fmt"
	"math"
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
	magnitude := math.Abs(s.Bias.Class) + math.Abs(s.Bias.RunnerUp)
	channels, names, n := map[int]*Share{}, model.Channels, len(statistics)
	perSegment := n / model.Front.Segments.Count
	length := model.Front.Segments.Length * max(1, model.Front.Decimate)
	for j, v := range statistics {
		if j%perSegment == 0 {
			k := len(s.Segments)
			s.Segments = append(s.Segments, Share{What: fmt.Sprintf("samples %d to %d", k*length+1, (k+1)*length)})
		}
		classPart, otherPart := p.parts(func(c int) float64 { return float64(l.Segments.Weights[c*n+j]) * l.Segments.Distance(j, v) })
		s.Sum.addScores(classPart, otherPart)
		magnitude += math.Abs(classPart) + math.Abs(otherPart)
		s.Segments[len(s.Segments)-1].addFeature(classPart, otherPart)
		channel := j % perSegment * len(names) / perSegment
		ensureShare(channels, channel, names[channel]).addFeature(classPart, otherPart)
	}
	s.Channels = sortShares(channels)
	// Each score is rounded to float32 once; the float64 terms are added in another order.
	s.Rounding = (math.Abs(s.Score.Class)+math.Abs(s.Score.RunnerUp))/(1<<23) + float64(n)*magnitude/(1<<53)
	return s
}
