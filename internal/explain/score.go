package explain

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Score is what made the score of the class that was predicted, and that of the next
// best class. Of two classes there is one score, and each class's is the opposite of the
// other's.
type Score struct {
	Class    string  `json:"class"`
	RunnerUp string  `json:"runner_up"`
	Bias     Part    `json:"bias"`
	Features Part    `json:"features"` // all contributions together
	Sum      Part    `json:"sum"`      // of bias and contributions, in float64
	Score    Part    `json:"score"`    // as the readout computes it
	Rounding float64 `json:"rounding"` // that Sum and Score may differ by

	Limited int `json:"limited"` // features that are further from their mean than training ever let count
	Of      int `json:"of"`      // features

	Kinds    []Share     `json:"kinds"`    // by kind of feature
	Channels []Share     `json:"channels"` // by what members read
	Members  []Member    `json:"members"`
	Strong   []OfFeature `json:"strongest"` // features, by their part in the difference

	pair pair
}

// Part is a part of the two scores, and of what one is above the other.
type Part struct {
	Class      float64 `json:"class"`
	RunnerUp   float64 `json:"runner_up"`
	Difference float64 `json:"difference"`
}

func (p *Part) add(class, other float64) {
	p.Class += class
	p.RunnerUp += other
	p.Difference += class - other
}

// Share is a group of features.
type Share struct {
	What string `json:"what"`
	Part
	Features int `json:"features"`
}

// Member is one of the bank.
type Member struct {
	Member   int      `json:"member"`
	Kind     string   `json:"kind"`     // tap or recurrent
	Channels []string `json:"channels"` // that it reads
	Part
}

// OfFeature is a feature.
type OfFeature struct {
	Member  int     `json:"member"`
	Unit    int     `json:"unit"`
	Kind    string  `json:"kind"`
	Value   float32 `json:"value"`
	Mean    float32 `json:"mean"` // in training
	Limited bool    `json:"limited"`
	Part
}

// pair gives the parts of two classes' scores that follow from a readout's columns.
type pair struct {
	class, other int     // columns; both 0 of two classes
	sign         float64 // of the one column, of two classes
}

// pairOf is that of the class of some scores and the next best.
func pairOf(l *readout.Linear, scores []float32) (p pair, class, other int) {
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

// of are the parts of both, of what each column has.
func (p pair) of(column func(c int) float64) (class, other float64) {
	if p.sign != 0 {
		v := p.sign * column(0)
		return v, -v
	}
	return column(p.class), column(p.other)
}

// score takes the scores of a sequence apart.
func (m *models) score(c *candidate, strongest int) *Score {
	l, spec := m.linear, m.job.Model.Network.Spec
	n := l.Features()
	scores := make([]float32, l.Columns())
	l.Scores(scores, c.features)
	p, class, other := pairOf(l, scores)
	s := &Score{Class: l.Classes[class], RunnerUp: l.Classes[other], Of: n, Members: m.members(), pair: p}
	s.Score.add(p.of(func(c int) float64 { return float64(scores[c]) }))
	s.Bias.add(p.of(func(c int) float64 { return float64(l.Intercept[c]) }))
	kinds := map[reservoir.Feature]*Share{}
	features, channels := spec.OrderedFeatures(), map[string]*Share{}
	magnitude := math.Abs(s.Bias.Class) + math.Abs(s.Bias.RunnerUp)
	for j := range n {
		d, limited := l.Distance(j, c.features[j])
		one, two := p.of(func(c int) float64 { return float64(l.Weights[c*n+j]) * float64(d) })
		magnitude += math.Abs(one) + math.Abs(two)
		if limited {
			s.Limited++
		}
		s.Features.add(one, two)
		member, kind := j/(len(features)*spec.Units), features[j/spec.Units%len(features)]
		s.Members[member].add(one, two)
		shareOf(kinds, kind, string(kind)).take(one, two)
		set := strings.Join(s.Members[member].Channels, ", ")
		shareOf(channels, set, set).take(one, two)
		f := OfFeature{Member: member, Unit: j % spec.Units, Kind: string(kind), Value: c.features[j], Mean: l.Center[j], Limited: limited}
		f.add(one, two)
		s.Strong = append(s.Strong, f)
	}
	s.Sum = s.Bias
	s.Sum.add(s.Features.Class, s.Features.RunnerUp)
	s.Rounding = float64(n) * magnitude / (1 << 24)
	s.Kinds, s.Channels = sorted(kinds), sorted(channels)
	slices.SortStableFunc(s.Strong, func(a, b OfFeature) int { return stronger(a.Part, b.Part) })
	s.Strong = s.Strong[:min(len(s.Strong), max(0, strongest))]
	return s
}

func (s *Share) take(class, other float64) {
	s.add(class, other)
	s.Features++
}

func shareOf[K comparable](all map[K]*Share, key K, what string) *Share {
	if all[key] == nil {
		all[key] = &Share{What: what}
	}
	return all[key]
}

func stronger(a, b Part) int { return cmp.Compare(math.Abs(b.Difference), math.Abs(a.Difference)) }

func sorted[K comparable](all map[K]*Share) (list []Share) {
	for _, s := range all {
		list = append(list, *s)
	}
	slices.SortFunc(list, func(a, b Share) int { return cmp.Or(stronger(a.Part, b.Part), cmp.Compare(a.What, b.What)) })
	return list
}

// members are those of the bank, with what they read.
func (m *models) members() []Member {
	net, names := m.job.Model.Network, m.job.Model.Channels
	all := make([]Member, len(net.Members))
	for r := range all {
		var reads []int
		for _, i := range net.Members[r].Inputs {
			reads = append(reads, int(i)%len(names)) // behind the channels are their differences
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
