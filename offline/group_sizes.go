package offline

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/groups"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// countDataGroups is bridge.CountGroups.
func countDataGroups(ctx context.Context, data archive.Data, rule *groups.Rule) ([]groups.Size, error) {
	if f, ok := data.(archive.RecordingFiles); ok {
		return recordingGroupSizes(ctx, f, rule)
	}
	return datasetGroupSizes(data.(*archive.Dataset), rule)
}

func datasetGroupSizes(d *archive.Dataset, rule *groups.Rule) ([]groups.Size, error) {
	c := sizes{}
	for i := range d.Series {
		s := &d.Series[i]
		if s.Label < 0 {
			continue
		}
		group := seriesGroup(s, rule)
		if group == "" {
			return nil, fmt.Errorf("offline: data set %q: %w", d.Name, inNoPart("series", s.ID, group, rule))
		}
		c.add(group, d.Classes[s.Label])
	}
	return c.sorted(), nil
}

func recordingGroupSizes(ctx context.Context, f archive.RecordingFiles, rule *groups.Rule) ([]groups.Size, error) {
	src, err := openLabeled(ctx, f, "", rule)
	if err != nil {
		return nil, err
	}
	c := sizes{}
	err = src.read(ctx, func(p *chunk) error {
		group := ""
		next := 0
		count := func(to int) error {
			for r := next; r < to; r++ {
				label := p.labels[r]
				if p.told != nil && p.told[r] >= 0 {
					label = p.told[r]
				}
				switch {
				case label < 0:
				case group == "":
					return fmt.Errorf("offline: %s: %w", src.what, inNoPart("stream", p.id, group, rule))
				default:
					c.add(group, src.classes[label])
				}
			}
			next = to
			return nil
		}
		err := eachSite(src.sites, p, func(at, site int) error {
			err := count(at)
			group = src.sites.Name(site)
			return err
		})
		if err == nil {
			err = count(len(p.labels))
		}
		return err
	})
	return c.sorted(), err
}

// sizes counts the data of each class in each group.
type sizes map[string]map[string]int64

func (c sizes) add(group, class string) {
	if c[group] == nil {
		c[group] = map[string]int64{}
	}
	c[group][class]++
}

func (c sizes) sorted() (list []groups.Size) {
	for group, classes := range c {
		list = append(list, groups.Size{Group: group, Classes: classes})
	}
	slices.SortFunc(list, func(a, b groups.Size) int { return cmp.Compare(a.Group, b.Group) })
	return list
}
