package readout

import (
	"cmp"
	"fmt"
	"slices"
)

// Plan says how a head will be learnt, and what that takes.
type Plan struct {
	Samples  int  `json:"samples"`
	Features int  `json:"features"`
	Kernel   bool `json:"kernel"`   // through the n x n kernel, for which all features are kept; else through moments
	Spilled  bool `json:"spilled"`  // the features go to a temporary file
	LeftOut  int  `json:"left_out"` // samples that choose alpha; 0: there is one alpha

	Adding  int64 `json:"adding_bytes"`  // held while samples are added
	Solving int64 `json:"solving_bytes"` // held at most

	// Multiply-adds of a dense product that take as long.
	AddWork   float64 `json:"add_work"` // for each sample
	SolveWork float64 `json:"solve_work"`

	kept []span // what is kept of the samples, in order; nil: all
}

// keptValues bounds the features of samples that are kept to choose alpha,
// where samples outnumber features: 160 MiB of them. Of 10,000 features that
// is 4,194 samples, whose share of correct predictions is known to within a
// percentage point; of 100, 419,430. Fewer groups than keptGroups say nothing,
// however many samples they have.
var keptValues = 40 << 20 // a variable for tests

const keptGroups = 8

// NewPlan plans for samples of features. Of the options it reads Alphas,
// Groups and Memory.
func NewPlan(features, classes, samples int, opt Options) Plan {
	n, f, c := float64(samples), float64(features), float64(columnsFor(classes))
	steps := 0
	if alphas := len(opt.Alphas); alphas != 1 {
		steps = searchSteps(cmp.Or(alphas, len(DefaultAlphas())))
	}
	p := Plan{Samples: samples, Features: features, Kernel: samples <= features}
	groups, _ := spans(opt.Groups, samples)
	block := 1.0 // of the largest group
	for _, g := range groups {
		block = max(block, float64(g.size()))
	}
	if p.Kernel {
		if steps > 0 {
			p.LeftOut = samples
		}
		all := 4 * n * f
		tables := 16*n*n + 8*f*c
		if groups != nil {
			tables += 16 * block * block
		}
		p.Spilled = opt.Memory > 0 && int64(all+tables) > opt.Memory
		if p.Spilled {
			all = 8 * n * panel
		}
		p.Adding, p.Solving = int64(all), int64(all+tables)
		p.SolveWork = n*n*f/2 + max(1, 2*float64(steps))*solveFactor*n*n*n/6
		return p
	}
	p.kept = keep(groups, samples, keptValues/features, steps > 0)
	m := n
	if p.kept != nil {
		m = 0
		for _, s := range p.kept {
			m += float64(s.size())
		}
	}
	rows := 4 * m * f
	if steps > 0 {
		p.LeftOut = int(m)
	}
	whitened := 8 * min(m, max(panel, block)) * f
	p.Adding = int64(8*f*f + rows + 4*panel*f)
	p.Solving = int64(12*f*f + rows + whitened + 32*f*c)
	if groups != nil {
		p.Solving += int64(16 * block * block)
	}
	p.AddWork = f * f / 2
	p.SolveWork = max(1, float64(steps)) * solveFactor * (f*f*f/6 + m*f*f/2)
	return p
}

// solveFactor is how much longer factorisations and triangular solves take
// than a product of as many multiply-adds.
const solveFactor = 1.25

// check refuses what exceeds the memory given; 0 is no bound. Solving is not
// asked of a part.
func (p Plan) check(whole bool, memory int64) error {
	need := p.Adding
	if whole {
		need = max(need, p.Solving)
	}
	if memory <= 0 || need <= memory {
		return nil
	}
	return fmt.Errorf("readout: %d samples of %d features need %s of memory, want at most %s: take fewer features, or give more memory",
		p.Samples, p.Features, Size(need), Size(memory))
}

// Size is a number of bytes for people.
func Size(bytes int64) string {
	switch {
	case bytes >= 10<<30:
		return fmt.Sprintf("%.0f GiB", float64(bytes)/(1<<30))
	case bytes >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
	}
	return fmt.Sprintf("%.0f MiB", float64(bytes)/(1<<20))
}

// keep draws the groups of samples to keep, in the order of a hash of their
// place: whole ones, as many as go into most samples, and the first few
// whatever their size. nil: all; empty: none is wanted.
func keep(groups []span, n, most int, wanted bool) []span {
	if !wanted {
		return []span{}
	}
	if n <= most {
		return nil
	}
	count := n
	if groups != nil {
		count = len(groups)
	}
	type draw struct {
		hash uint64
		at   int
	}
	order := make([]draw, count)
	for i := range order {
		order[i] = draw{mix(uint64(i)), i}
	}
	slices.SortFunc(order, func(a, b draw) int { return cmp.Or(cmp.Compare(a.hash, b.hash), cmp.Compare(a.at, b.at)) })
	var kept []span
	for _, d := range order {
		g := span{d.at, d.at + 1}
		if groups != nil {
			g = groups[d.at]
		}
		if len(kept) < keptGroups || g.size() <= most {
			kept = append(kept, g)
			most -= g.size()
		}
	}
	slices.SortFunc(kept, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	return kept
}

// mix is the finaliser of SplitMix64: Steele, Lea and Flood 2014.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
