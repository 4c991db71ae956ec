package offline

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/groups"
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// parseGroups returns the rule of groups, requested or of the parts, and the parts; nil: none.
func parseGroups(text string, encoded []byte) (rule *groups.Rule, parts *groups.Parts, err error) {
	if text != "" {
		if rule, err = groups.Parse(text); err != nil {
			return nil, nil, fmt.Errorf("offline: groups: %w", err)
		}
	}
	if encoded == nil {
		return rule, nil, nil
	}
	if parts, err = groups.DecodeParts(encoded); err != nil {
		return nil, nil, fmt.Errorf("offline: parts: %w", err)
	}
	own, err := parts.Grouping()
	if err == nil && rule != nil && rule.String() != own.String() {
		err = fmt.Errorf("offline: groups by %s, and parts by %s: want one rule", rule, own)
	}
	return own, parts, err
}

// divideDataset returns d with the series of each group in its part.
func divideDataset(d *archive.Dataset, p *groups.Parts) (*archive.Dataset, error) {
	if p == nil {
		return d, nil
	}
	rule, err := p.Grouping()
	if err != nil {
		return nil, err
	}
	part := splitOf(p)
	next := *d
	next.Series = slices.Clone(d.Series)
	for i := range next.Series {
		s := &next.Series[i]
		group := seriesGroup(s, rule)
		split, known := part[group]
		if !known {
			if s.Label < 0 {
				continue // in no group, and neither learned from nor counted
			}
			return nil, fmt.Errorf("offline: data set %q: %w", d.Name, inNoPart("series", s.ID, group, rule))
		}
		s.Split = split
	}
	return &next, nil
}

func splitOf(p *groups.Parts) map[string]archive.Split {
	part := map[string]archive.Split{}
	for _, g := range p.Train {
		part[g] = archive.Train
	}
	for _, g := range p.Test {
		part[g] = archive.Test
	}
	return part
}

func inNoPart(word, id, group string, rule *groups.Rule) error {
	if group == "" {
		return fmt.Errorf("%s %q is in no group: it %s", word, names.Cut(id, 60), rule.Missing())
	}
	return fmt.Errorf("group %q of %s %q is in no part: add it to train or to test in the file of parts", names.Cut(group, 60), word, names.Cut(id, 60))
}

// seriesGroup is the group of a series; empty: in none.
func seriesGroup(s *archive.Series, rule *groups.Rule) string {
	switch _, column := rule.Column(); {
	case column:
		return s.Group
	case rule.Days():
		return ""
	}
	return rule.Stream(s.ID)
}

// partSource hides the labels of all groups except the groups of one part, so that hidden samples are neither learned
// from nor counted. Hidden samples are no input for the statistics either.
type partSource struct {
	sampleSource
	sites    *groups.Table
	part     map[string]archive.Split
	want     archive.Split
	channels int
}

// inPart restricts a source to the requested part.
func inPart(src sampleSource, channels int, p *groups.Parts, want archive.Split) (sampleSource, error) {
	if p == nil {
		return src, nil
	}
	rule, err := p.Grouping()
	if err != nil {
		return nil, err
	}
	return &partSource{src, groups.NewTable(rule), splitOf(p), want, channels}, nil
}

func (t *partSource) read(ctx context.Context, yield func(*chunk) error) error {
	return t.sampleSource.read(ctx, func(p *chunk) error {
		if len(p.labels) == 0 {
			return yield(p)
		}
		group, from := "", 0
		give := func(to int) error {
			if from == to {
				return nil
			}
			one := p.slice(from, to, t.channels)
			split, known := t.part[group]
			if !known && one.labeled() {
				return fmt.Errorf("offline: %w", inNoPart(t.word(), p.id, group, t.sites.Rule))
			}
			if one.part = split; split != t.want {
				one.hide()
			}
			from = to
			return yield(one)
		}
		err := eachSite(t.sites, p, func(at, site int) error {
			err := give(at)
			group = t.sites.Name(site)
			return err
		})
		if err == nil {
			err = give(len(p.labels))
		}
		return err
	})
}

// labeled reports whether something is known of a sample.
func (p *chunk) labeled() bool {
	known := func(l int) bool { return l >= 0 }
	return slices.ContainsFunc(p.labels, known) || slices.ContainsFunc(p.told, known) || slices.ContainsFunc(p.numbers, func(v float64) bool { return v == v })
}

// slice is the samples [from, to) of p.
func (p *chunk) slice(from, to, channels int) *chunk {
	n := len(p.labels)
	one := *p
	one.values, one.labels = p.values[from*channels:to*channels], p.labels[from:to]
	one.times, one.ends, one.groups = some(p.times, from, to), some(p.ends, from, to), some(p.groups, from, to)
	one.flags, one.told, one.numbers, one.seqs = some(p.flags, from, to), some(p.told, from, to), some(p.numbers, from, to), some(p.seqs, from, to)
	one.last, one.silent = p.last && to == n, p.silent && to == n
	return &one
}

func some[T any](list []T, from, to int) []T {
	if list == nil {
		return nil
	}
	return list[from:to]
}

// hide takes the labels away.
func (p *chunk) hide() {
	p.labels = slices.Repeat([]int{-1}, len(p.labels))
	p.told, p.counts = nil, false
	if p.numbers != nil {
		p.numbers = slices.Repeat([]float64{math.NaN()}, len(p.labels))
	}
}

// eachSite visits the first sample of the chunk, and each sample with a change of the group.
func eachSite(t *groups.Table, p *chunk, visit func(at, site int) error) error {
	_, column := t.Rule.Column()
	for r := range p.labels {
		site := groups.None
		switch {
		case column && r > 0 && (p.groups == nil || p.groups[r] == p.groups[r-1]):
			continue
		case column && p.groups != nil:
			site = t.Number(p.groups[r])
		case column:
		case t.Rule.Days():
			at := timeOf(p.times, r)
			if r > 0 && dayOf(at) == dayOf(timeOf(p.times, r-1)) {
				continue
			}
			if at != archive.NoTime {
				site = t.Number(groups.Day(at))
			}
		case r > 0:
			return nil // a stream has one name
		default:
			site = t.Number(t.Rule.Stream(p.id))
		}
		if err := visit(r, site); err != nil {
			return err
		}
	}
	return nil
}

// dayOf numbers days. A sample without a time has a day of its own: no other sample is so early.
func dayOf(t int64) int64 {
	const day = 24 * 60 * 60 * 1e9
	d := t / day
	if t%day < 0 {
		d--
	}
	if t == archive.NoTime {
		d--
	}
	return d
}
