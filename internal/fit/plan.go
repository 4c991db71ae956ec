package fit

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Plan describes how a readout will be learned, with memory and time.
type Plan struct {
	Samples  int  `json:"samples"`
	Features int  `json:"features"`
	Kernel   bool `json:"kernel"`   // through the n x n kernel, with all features kept; else through moments
	Spilled  bool `json:"spilled"`  // the features, or with moments a copy of their sums, go to a temporary file
	LeftOut  int  `json:"left_out"` // samples for choosing alpha; 0: a single alpha
	Passes   int  `json:"passes"`   // passes over the samples: 2 if features are clipped and not kept, see Learner.Measure

	Adding  int64 `json:"adding_bytes"`  // held while samples are added
	Solving int64 `json:"solving_bytes"` // maximum

	// Work in multiply-adds of a dense product of equal time.
	AddWork   float64 `json:"add_work"` // for each sample
	SolveWork float64 `json:"solve_work"`

	kept []bool // of each group; nil: all
}

// keeps reports whether a group, or a sample by itself, is kept.
func (p Plan) keeps(group int) bool { return p.kept == nil || p.kept[group] }

// keptValues limits the features of samples kept to choose alpha, if samples outnumber
// features: 160 MiB. With 10,000 features this is 4,194 samples, whose share of correct
// predictions is accurate to a percentage point; with 100, 419,430. Fewer groups than
// keptGroups give no information, whatever their number of samples.
var keptValues = 40 << 20 // a variable for tests

const keptGroups = 8

// NewPlan plans for samples of features. NewPlan reads the options Alphas, Groups, Outer,
// Coverage, Priors, Left, Memory, Standardize and Soft.
func NewPlan(features, classes, samples int, opt Options) Plan {
	n, f, c := float64(samples), float64(features), float64(columnsFor(classes))
	steps := opt.steps()
	p := Plan{Samples: samples, Features: features, Kernel: samples <= features, Passes: 1}
	groups, _ := opt.groups(samples) // NewLearner rejects invalid groups
	block := 0.0                     // of the largest group
	for _, g := range groups {
		block = max(block, float64(len(g)))
	}
	if p.Kernel {
		if steps > 0 {
			p.LeftOut = samples
		}
		p.Adding, p.Solving, p.Spilled = kernelBytes(n, f, c, block, opt)
		p.SolveWork = n*n*f/2 + max(1, 2*float64(steps))*solveFactor(n)*n*n*n/6
		return p
	}
	p.kept, p.LeftOut = keep(groups, samples, keptValues/features, steps > 0)
	m := float64(p.LeftOut)
	p.Adding = int64(8*f*f + 4*m*f + 4*panel*f)
	if opt.scaling().clip() > 0 {
		p.Passes = 2
		p.Adding += int64(16*f + 4*panel*f) // the measures; a panel, clipped
	}
	p.Solving = int64(12*f*f + 4*m*f + 8*min(m, max(panel, block))*f + 32*f*c)
	if block <= f {
		p.Solving += int64(16 * block * block)
	} else {
		p.Solving += int64(16*block*f + 8*f*f) // see type wide
	}
	p.spillSums(opt.Memory)
	p.AddWork = f * f / 2
	p.SolveWork = momentsWork(f, m, steps)
	return p
}

// spillSums moves the copy of the Gram matrix, 4 bytes for each of F x F, to a file if memory
// is too small for all.
func (p *Plan) spillSums(memory int64) {
	spare := 4 * int64(p.Features) * int64(p.Features)
	if memory > 0 && p.Solving > memory {
		p.Spilled = true
		p.Solving -= spare
	}
}

// steps returns the number of tried alphas; 0: a single alpha, and nothing is left out.
// Coverage, MaxError, priors and Left need left-out samples also with a single alpha.
func (o Options) steps() int {
	if o.Outer != nil {
		return searchSteps(cmp.Or(len(o.Alphas), len(DefaultAlphas()))) + 1 // see outer.report
	}
	if alphas := len(o.Alphas); alphas != 1 || o.Coverage != 0 || o.MaxError != 0 || o.Priors != nil || o.Left {
		return searchSteps(cmp.Or(alphas, len(DefaultAlphas())))
	}
	return 0
}

// momentsWork returns the work of solving through moments, with leftOut samples left out in
// turn.
func momentsWork(features, leftOut float64, steps int) float64 {
	return max(1, float64(steps)) * solveFactor(features) * (features*features*features/6 + leftOut*features*features/2)
}

// kernelBytes returns the memory of the kernel solver: the features, in memory or spilled, and
// two n x n matrices.
func kernelBytes(n, f, columns, block float64, opt Options) (adding, solving int64, spilled bool) {
	all, tables := 4*n*f, 16*n*n+8*f*columns+16*block*block
	if opt.scaling().clip() > 0 {
		all += 4 * n * panel // a panel, clipped
	}
	spilled = opt.Memory > 0 && int64(all+tables) > opt.Memory && n > 0 && f > 2*panel
	if spilled {
		all = 8 * n * panel // a panel, and its bytes
	}
	return int64(all), int64(all + tables), spilled
}

// solveFactor is the time of factorizations and triangular solves of an order, relative to a
// product of as many multiply-adds: measured, 2 at 3,000, 4/3 at 10,000.
func solveFactor(order float64) float64 { return 1 + 3000/order }

// check rejects a plan beyond the given memory; 0 is no limit. A part needs no memory for
// solving.
func (p Plan) check(whole bool, memory int64) error {
	need := p.Adding
	if whole {
		need = max(need, p.Solving)
	}
	if memory <= 0 || need <= memory {
		return nil
	}
	return fmt.Errorf("fit: %w: %d samples of %d features need %s, want at most %s: take fewer features, or give more memory",
		ErrMemory, p.Samples, p.Features, Size(need), Size(memory))
}

// ErrMemory reports that a training does not fit into Options.Memory, even with files.
var ErrMemory = errors.New("too little memory")

// ProductRate measures the multiply-adds per second of the main products of learning, on all
// cores, under the current load of the machine: some hundredths of a second, long enough for
// its scheduler.
func ProductRate() float64 {
	const samples, features, atLeast = panel, 768, 60 * time.Millisecond
	m := newMoments(features, 1)
	x, labels := make([]float32, samples*features), make([]int, samples)
	m.add(x, labels) // reads cold memory
	start, rounds := time.Now(), 0
	for time.Since(start) < atLeast {
		m.add(x, labels)
		rounds++
	}
	return float64(rounds) * samples * features * features / 2 / time.Since(start).Seconds()
}

// Size formats a number of bytes for people.
func Size(bytes int64) string {
	switch {
	case bytes >= 10<<30:
		return fmt.Sprintf("%.0f GiB", float64(bytes)/(1<<30))
	case bytes >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
	}
	return fmt.Sprintf("%.0f MiB", float64(bytes)/(1<<20))
}

// groups lists the samples of each group to leave out.
func (o Options) groups(n int) ([][]int32, error) {
	if o.Outer != nil {
		return arrange(o.Outer, o.Groups, n)
	}
	return gather(o.Groups, n)
}

// gather lists the samples of each group, groups in the order of their first samples; nil if
// each sample is a group.
func gather(groups []int, n int) ([][]int32, error) {
	if groups == nil {
		return nil, nil
	}
	if len(groups) != n {
		return nil, fmt.Errorf("fit: groups of %d samples, want %d", len(groups), n)
	}
	number := map[int]int{}
	var list [][]int32
	for i, g := range groups {
		at, known := number[g]
		if !known {
			at = len(list)
			number[g], list = at, append(list, nil)
		}
		list[at] = append(list[at], int32(i))
	}
	if len(list) == n {
		return nil, nil
	}
	return list, nil
}

// keep draws the groups of samples to keep, in the order of a hash of their place: whole
// groups, up to most samples, and the first few groups of any size. nil: all. keep also counts
// the samples.
func keep(groups [][]int32, n, most int, wanted bool) (kept []bool, count int) {
	size := func(g int) int { return 1 }
	total := n
	if groups != nil {
		size = func(g int) int { return len(groups[g]) }
		total = len(groups)
	}
	if !wanted {
		return make([]bool, total), 0
	}
	if n <= most {
		return nil, n
	}
	order := make([]int, total)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(mix(uint64(a)), mix(uint64(b))) })
	kept = make([]bool, total)
	for i, g := range order {
		if i < keptGroups || count+size(g) <= most {
			kept[g] = true
			count += size(g)
		}
	}
	return kept, count
}

// mix is the finalizer of SplitMix64: Steele, Lea and Flood 2014.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
