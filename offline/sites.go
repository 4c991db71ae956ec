package offline

import (
	"fmt"

	"github.com/eusn-stream/eusn-stream/internal/fit"
	"github.com/eusn-stream/eusn-stream/internal/groups"
	"github.com/eusn-stream/eusn-stream/internal/names"
)

// Groups by a user's rule, such as machines, are called sites here: other groups have a common origin.

// checkSites requires that every labeled sequence with one group has a group by the rule.
func (pl *plan) checkSites(what string) error {
	switch {
	case pl.sites == nil || pl.strays == 0 && (pl.across == 0 || pl.points > 0):
		return nil
	case pl.strays == 0:
		return fmt.Errorf("offline: %s: each of the %d labeled sequences has samples of several groups by %s, want some of one group: take shorter sequences, or another rule", what, pl.across, pl.sites.Rule)
	}
	return fmt.Errorf("offline: %s: %d labeled sequences are in no group: the first is of %s %q, which %s; want a rule that gives each a group", what, pl.strays, pl.word, names.Cut(pl.stray, 60), pl.sites.Rule.Missing())
}

// byGroup describes the groups before training; nil if not requested.
func (s *trainingOrder) byGroup(pl *plan, src labeledData) (*groups.Report, error) {
	if s.sites == nil {
		return nil, nil
	}
	rule := pl.sites.Rule
	of := make([]map[int]int, len(src.classes)) // sequences of each group
	seen := map[int]bool{}
	for i, site := range s.sites {
		seen[site] = true
		label := s.labels[i]
		if of[label] == nil {
			of[label] = map[int]int{}
		}
		of[label][site]++
	}
	if len(seen) == 1 {
		return nil, fmt.Errorf("offline: %s: all %d sequences are of the one group %q by %s: leaving it out leaves nothing to learn from, want at least two groups", src.what, len(s.sites), names.Cut(pl.sites.Names[s.sites[0]], 60), rule)
	}
	r := &groups.Report{Rule: rule.String(), Across: pl.across}
	for class, in := range of {
		if len(in) == 1 {
			for site, n := range in {
				r.Alone = append(r.Alone, groups.Alone{Class: src.classes[class], Group: pl.sites.Names[site], Sequences: n})
			}
		}
	}
	return r, nil
}

// leftOut completes a report with the results of leaving out each group.
func leftOut(before *groups.Report, sites *groups.Table, outer *fit.OuterReport) *groups.Report {
	var all []groups.Result
	for _, g := range outer.Groups {
		all = append(all, groups.Result{Group: sites.Names[g.Group], Sequences: g.Samples, Correct: g.Correct})
	}
	r := groups.NewReport(sites.Rule, all)
	r.SetPlain(outer.Plain)
	r.Alone, r.Across = before.Alone, before.Across
	return r
}
