package explain

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Score has the contributions to the scores of the predicted class and of the next best class. With
// two classes there is one score, with opposite signs for the classes.
type Score struct {
	Class    string  `json:"class"`
	RunnerUp string  `json:"runner_up"`
	Bias     Part    `json:"bias"`
	Features Part    `json:"features"` // all contributions together
	Sum      Part    `json:"sum"`      // of bias and contributions, in float64
	Score    Part    `json:"score"`    // computed by the readout
	Rounding float64 `json:"rounding"` // maximum difference of Sum and Score

	Limited int `json:"limited"` // features limited because they are further from their mean than in training
	Of      int `json:"of"`      // features

	Kinds    []Share        `json:"kinds"`    // by kind of feature
	Channels []Share        `json:"channels"` // by the members' channels
	Members  []Member       `json:"members"`
	Strong   []FeatureShare `json:"strongest"` // by contribution to the difference

	pair pair
}

// Part is a contribution to both scores and to their difference.
type Part struct {
	Class      float64 `json:"class"`
	RunnerUp   float64 `json:"runner_up"`
	Difference float64 `json:"difference"`
}

func (p *Part) addScores(class, other float64) {
	p.Class += class
	p.RunnerUp += other
	p.Difference += class - other
}

// Share is the contribution of a group of features.
type Share struct {
	What string `json:"what"`
	Part
	Features int `json:"features"`
}

// Member is a member of the bank.
type Member struct {
	Member   int      `json:"member"`
	Kind     string   `json:"kind"`     // tap or recurrent
	Channels []string `json:"channels"` // read by the member
	Part
}

// FeatureShare is the contribution of a feature.
type FeatureShare struct {
	Member  int     `json:"member"`
	Unit    int     `json:"unit"`
	Kind    string  `json:"kind"`
	Value   float32 `json:"value"`
	Mean    float32 `json:"mean"` // in training
	Limited bool    `json:"limited"`
	Part
}

// pair maps a readout's columns to the scores of two classes.
type pair struct {
	class, other int     // columns; both 0 for two classes
	sign         float64 // of the only column, for two classes
}

// newPair returns the pair of the best and the next best class of scores.
func newPair(l *readout.Linear, scores []float32) (p pair, class, other int) {
	class = l.Class(scores)
	if len(l.Classes) == 2 {
		return pair{sign: float64(2*class - 1)}, class, 1 - class
	}
	other = -1
	for c, s := range scores {
		if c != class && (other < 0 || s > scores[other]) {
			other = c
		}
	}
	return pair{class: class, other: other}, class, other
}

// parts returns the values of both classes from the values of the columns.
func (p pair) parts(column func(c int) float64) (class, other float64) {
	if p.sign != 0 {
		v := p.sign * column(0)
		return v, -v
	}
	return column(p.class), column(p.other)
}

// explainScore divides the scores of a sequence.
func (m *predictionModel) explainScore(c *candidate, strongest int) *Score {
	l, spec := m.linear, m.job.Model.Network.Spec
	n := l.Features()
	scores := make([]float32, l.Columns())
	l.Scores(scores, c.features)
	p, class, other := newPair(l, scores)
	s := &Score{Class: l.Classes[class], RunnerUp: l.Classes[other], Of: n, Members: m.bankMembers(), pair: p}
	s.Score.addScores(p.parts(func(c int) float64 { return float64(scores[c]) }))
	s.Bias.addScores(p.parts(func(c int) float64 { return float64(l.Intercept[c]) }))
	kinds := map[reservoir.Feature]*Share{}
	features, channels := spec.OrderedFeatures(), map[string]*Share{}
	magnitude := math.Abs(s.Bias.Class) + math.Abs(s.Bias.RunnerUp)
	for j := range n {
		d, limited := l.Distance(j, c.features[j])
		classPart, otherPart := p.parts(func(c int) float64 { return float64(l.Weights[c*n+j]) * float64(d) })
		magnitude += math.Abs(classPart) + math.Abs(otherPart)
		if limited {
			s.Limited++
		}
		s.Features.addScores(classPart, otherPart)
		member, kind := j/(len(features)*spec.Units), features[j/spec.Units%len(features)]
		s.Members[member].addScores(classPart, otherPart)
		ensureShare(kinds, kind, string(kind)).addFeature(classPart, otherPart)
		set := strings.Join(s.Members[member].Channels, ", ")
		ensureShare(channels, set, set).addFeature(classPart, otherPart)
		f := FeatureShare{Member: member, Unit: j % spec.Units, Kind: string(kind), Value: c.features[j], Mean: l.Center[j], Limited: limited}
		f.addScores(classPart, otherPart)
		s.Strong = append(s.Strong, f)
	}
	s.Sum = s.Bias
	s.Sum.addScores(s.Features.Class, s.Features.RunnerUp)
	s.Rounding = float64(n) * magnitude / (1 << 24)
	s.Kinds, s.Channels = sortShares(kinds), sortShares(channels)
	slices.SortStableFunc(s.Strong, func(a, b FeatureShare) int { return compareStrength(a.Part, b.Part) })
	s.Strong = s.Strong[:min(len(s.Strong), max(0, strongest))]
	return s
}

func (s *Share) addFeature(class, other float64) {
	s.addScores(class, other)
	s.Features++
}

func ensureShare[K comparable](all map[K]*Share, key K, what string) *Share {
	if all[key] == nil {
		all[key] = &Share{What: what}
	}
	return all[key]
}

func compareStrength(a, b Part) int {
	return cmp.Compare(math.Abs(b.Difference), math.Abs(a.Difference))
}

func sortShares[K comparable](all map[K]*Share) (list []Share) {
	for _, s := range all {
		list = append(list, *s)
	}
	slices.SortFunc(list, func(a, b Share) int { return cmp.Or(compareStrength(a.Part, b.Part), cmp.Compare(a.What, b.What)) })
	return list
}

// bankMembers returns the members of the bank with their channels.
func (m *predictionModel) bankMembers() []Member {
	net, names := m.job.Model.Network, m.job.Model.Channels
	all := make([]Member, len(net.Members))
	for r := range all {
		var reads []int
		for _, i := range net.Members[r].Inputs {
			reads = append(reads, int(i)%len(names)) // inputs after the channels are their differences
		}
		slices.Sort(reads)
		all[r] = Member{Member: r, Kind: "recurrent"}
		if net.Spec.Kind == reservoir.Mixed && r < net.Spec.Taps.Members {
			all[r].Kind = "tap"
		}
		for _, c := range slices.Compact(reads) {
			all[r].Channels = append(all[r].Channels, names[c])
		}
	}
	return all
}
