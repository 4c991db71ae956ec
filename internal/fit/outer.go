package fit

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/dense"
)

// Groups left out together, and results for outer groups (Options.Outer).

// span is the samples [from, to): one group.
type span struct{ from, to int }

func (g span) size() int { return g.to - g.from }

// spans lists the groups of n samples in order; nil if each sample is a group: leaving out a
// sample then needs only its leverage.
func spans(groups []int, n int) ([]span, error) {
	if groups == nil {
		return nil, nil
	}
	list, err := runs(groups, n)
	if len(list) == n {
		return nil, err
	}
	return list, err
}

// runs is spans, but also lists groups of one sample.
func runs(groups []int, n int) ([]span, error) {
	if len(groups) != n {
		return nil, fmt.Errorf("fit: groups of %d samples, want %d", len(groups), n)
	}
	var list []span
	seen := map[int]bool{}
	for i, g := range groups {
		if i > 0 && groups[i-1] == g {
			list[len(list)-1].to++
			continue
		}
		if seen[g] {
			return nil, fmt.Errorf("fit: group %d comes back at sample %d, want each group's samples next to each other", g, i)
		}
		seen[g] = true
		list = append(list, span{i, i + 1})
	}
	return list, nil
}

// OuterReport describes the chosen readout on unseen outer groups: each group is predicted by
// the readout fitted to all other groups.
type OuterReport struct {
	Groups   []GroupResult // in the order of their first samples
	Accuracy float64       // share of the samples whose class is predicted
	Mean     float64       // mean of the groups' accuracies
	// Plain is the accuracy with the same alpha and kind of readout if only Options.Groups are
	// left out, so that training includes other samples of the same outer group. The excess
	// over Accuracy does not hold for a new group. Not a number: not known.
	Plain float64
}

// GroupResult is one outer group.
type GroupResult struct {
	Group   int // its number in Options.Outer
	Samples int
	Correct int
}

// Accuracy returns the share of the group's samples whose class is predicted.
func (g GroupResult) Accuracy() float64 { return float64(g.Correct) / float64(g.Samples) }

// arrange lists the samples of each outer group, in the order of their first samples; within
// an outer group by groups, if any.
func arrange(outer, groups []int, n int) ([][]int32, error) {
	if len(outer) != n || groups != nil && len(groups) != n {
		return nil, fmt.Errorf("fit: outer groups of %d samples, and groups of %d, want %d", len(outer), len(groups), n)
	}
	number, first := map[int]int{}, map[int]int{}
	var list [][]int32
	for i, g := range outer {
		at, known := number[g]
		if !known {
			at = len(list)
			number[g], list = at, append(list, nil)
		}
		list[at] = append(list[at], int32(i))
		if groups == nil {
			continue
		}
		within := groups[i]
		if was, known := first[within]; !known {
			first[within] = i
		} else if outer[was] != g {
			return nil, fmt.Errorf("fit: group %d has samples of the outer groups %d and %d, want one", within, outer[was], g)
		}
	}
	if groups != nil {
		for _, members := range list {
			slices.SortStableFunc(members, func(a, b int32) int { return cmp.Compare(first[groups[a]], first[groups[b]]) })
		}
	}
	return list, nil
}

// nested describes groups within outer groups, for a Learner.
type nested struct {
	of, outer       []int // of all samples; of may be nil
	kept, keptOuter []int // of the kept samples, in their order
}

func (w *nested) keep(i int) {
	if w == nil {
		return
	}
	w.keptOuter = append(w.keptOuter, w.outer[i])
	if w.of != nil {
		w.kept = append(w.kept, w.of[i])
	}
}

// outer holds outer groups of samples that are left out in turn.
type outer struct {
	groups []span // nil: each sample is a group
	all    []span // the same groups, always listed
	number []int  // of each of all
	within []span // groups within outer groups; nil: each sample is a group
}

// newOuter requires adjacent samples of a group.
func newOuter(groups, in []int, n int) (*outer, error) {
	o := &outer{}
	var err error
	if o.all, err = runs(groups, n); err != nil {
		return nil, err
	}
	if len(o.all) < n {
		o.groups = o.all
	}
	for _, g := range o.all {
		o.number = append(o.number, groups[g.from])
	}
	o.within, err = spans(in, n)
	return o, err
}

// count summarizes the scores of samples left out with their outer group.
func (o *outer) count(scores dense.Matrix, labels []int) *OuterReport {
	r, all := &OuterReport{}, 0
	for i, g := range o.all {
		one := GroupResult{Group: o.number[i], Samples: g.size()}
		for k := g.from; k < g.to; k++ {
			if row := scores.Row(k); slices.Index(row, slices.Max(row)) == labels[k] {
				one.Correct++
			}
		}
		all += one.Correct
		r.Groups = append(r.Groups, one)
		r.Mean += one.Accuracy() / float64(len(o.all))
	}
	r.Accuracy = float64(all) / float64(len(labels))
	return r
}
