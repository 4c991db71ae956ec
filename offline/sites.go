package offline

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/eusn-stream/eusn-stream/internal/fit"
	"github.com/eusn-stream/eusn-stream/internal/groups"
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/internal/track"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// labelRun is samples of one label, up to the next run's first.
type labelRun struct {
	from  int64
	label int
	group int
}

// follow records the changes of the label.
func (c *streamCutter) follow(p *chunk) {
	if n := len(c.runs); n > 1 {
		c.runs = append(c.runs[:0], c.runs[n-1])
	}
	for r, label := range p.labels {
		if n := len(c.runs); n == 0 || c.runs[n-1].label != label {
			c.runs = append(c.runs, labelRun{c.at + int64(r), label, c.newGroup()})
		}
	}
}

// Groups by a user's rule, such as machines, are called sites here: other groups have a common origin.

// followSites records the changes of the group.
func (c *streamCutter) followSites(p *chunk) {
	if c.sites == nil {
		return
	}
	if n := len(c.site); n > 1 {
		c.site = append(c.site[:0], c.site[n-1])
	}
	_ = eachSite(c.sites, p, func(at, site int) error { // eachSite has no errors of its own
		if n := len(c.site); n == 0 || c.site[n-1].label != site {
			c.site = append(c.site, labelRun{from: c.at + int64(at), label: site})
		}
		return nil
	})
}

// place puts a point of a stream into the group of all its samples, and counts points without such a group.
func (c *streamCutter) place(p *point, stream string) {
	p.site = groups.None
	if c.sites == nil {
		return
	}
	i := sort.Search(len(c.site), func(i int) bool { return c.site[i].from >= p.to }) - 1 // holds sample to-1
	run := c.site[i]
	if p.site = run.label; run.from > p.from {
		p.site = groups.None
	}
	switch {
	case p.label < 0 || p.site != groups.None || p.early != (c.Policy.Kind == reservoir.Endless):
	case run.from > p.from:
		c.across++
	default:
		if c.strays++; c.strays == 1 {
			c.stray = stream
		}
	}
}

// checkSites requires that every labelled sequence with one group has a group by the rule.
func (pl *plan) checkSites(what string) error {
	switch {
	case pl.sites == nil || pl.strays == 0 && (pl.across == 0 || pl.points > 0):
		return nil
	case pl.strays == 0:
		return fmt.Errorf("offline: %s: each of the %d labelled sequences has samples of several groups by %s, want some of one group: take shorter sequences, or another rule", what, pl.across, pl.sites.Rule)
	}
	return fmt.Errorf("offline: %s: %d labelled sequences are in no group: the first is of %s %q, which %s; want a rule that gives each a group", what, pl.strays, pl.word, names.Cut(pl.stray, 60), pl.sites.Rule.Missing())
}

// byGroup describes the groups before training; nil if not requested.
func (s *trainingOrder) byGroup(pl *plan, src labelledData) (*groups.Report, error) {
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

// byGroup counts the predictions of each group; nil if not requested.
func (ev *Evaluation) byGroup(pl *plan, sites []int) *groups.Report {
	if pl.sites == nil {
		return nil
	}
	all, across := make([]groups.Result, len(pl.sites.Names)), 0
	for i := range ev.Predictions {
		p := &ev.Predictions[i]
		if !ev.Counts(p) || p.Label < 0 {
			continue
		}
		if sites[i] == groups.None {
			across++
			continue
		}
		all[sites[i]].Sequences++
		if p.Label == int(p.Class) {
			all[sites[i]].Correct++
		}
	}
	for i, name := range pl.sites.Names {
		all[i].Group = name
	}
	all = slices.DeleteFunc(all, func(g groups.Result) bool { return g.Sequences == 0 })
	r := groups.NewReport(pl.sites.Rule, all)
	r.Across = across
	return r
}

// numberBehind is the number of the last sample of the chunks before.
type numberBehind struct {
	known bool // a target exists
	last  float64
}

// pass remembers the last of a chunk.
func (b *numberBehind) pass(p *chunk) {
	if n := len(p.numbers); n > 0 {
		b.known, b.last = true, p.numbers[n-1]
	}
}

// set gives a point the number of its last sample. Other numbers of its samples do not count: a number belongs to the
// moment of its prediction.
func (b *numberBehind) set(p *point, samples *chunk, u *track.Piece) {
	p.number = math.NaN()
	switch {
	case u.To > 0 && samples.numbers != nil:
		p.number = samples.numbers[u.To-1]
	case b.known:
		p.number = b.last
	case samples.numbers == nil:
		return
	}
	if p.label, p.mixed = 0, false; p.number != p.number {
		p.label = -1
	}
}

// ofModel is the target of the numbers of a model's readout; empty: classes.
func ofModel(m *reservoir.Model, name string) (string, error) {
	linear, err := chooseReadout(m, name)
	if err != nil || linear.Interval == nil {
		return "", err
	}
	return linear.Classes[0], nil
}

// datasetFor returns d in the form for a model's readout: a regression can predict a data set with unknown numbers.
func datasetFor(d *archive.Dataset, m *reservoir.Model, name string) (*archive.Dataset, error) {
	target, err := ofModel(m, name)
	if err != nil || target == d.Target {
		return d, err
	}
	if target == "" {
		return nil, fmt.Errorf("offline: data set %q has numbers of %q, and the model predicts classes", d.Name, d.Target)
	}
	return d.WithoutNumbers(target), nil
}
