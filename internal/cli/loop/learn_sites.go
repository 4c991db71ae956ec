package loop

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/groups"
	"github.com/eusn-stream/eusn-stream/internal/learn"
	"github.com/eusn-stream/eusn-stream/internal/offline/bridge"
	"github.com/eusn-stream/eusn-stream/offline"
)

// parseSite reads a flag: the site of a stream; empty: none.
func parseSite(flag, text string) (func(stream string) string, error) {
	switch text {
	case "":
		return nil, nil
	case "all":
		if flag != "--sums" {
			break
		}
		return func(string) string { return "all" }, nil
	case "stream":
		return func(stream string) string { return stream }, nil
	}
	p, err := groups.Expression(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return func(stream string) string { return groups.Capture(p, stream) }, nil
}

// siteResult is the performance at a site of a readout trained without the site.
type siteResult struct {
	Site      string `json:"site"`
	Sequences int    `json:"sequences"`        // sequences with features, which are tested
	Summed    int    `json:"summed,omitempty"` // sequences with sums only
	Correct   int    `json:"correct"`
	Why       string `json:"why,omitempty"` // the reason why it was not tested
}

func (r siteResult) String() string {
	if r.Why != "" {
		return fmt.Sprintf("%d sequences, not tested: %s", r.Sequences, r.Why)
	}
	more := ""
	if r.Summed > 0 {
		more = fmt.Sprintf("; of %d others the features were given up", r.Summed)
	}
	return fmt.Sprintf("%d of %d sequences right (%.1f %%)%s", r.Correct, r.Sequences, 100*float64(r.Correct)/float64(max(1, r.Sequences)), more)
}

// mostSites bounds how many readouts are learned.
const mostSites = 100

// testSites tests each site with a readout trained on the other sites.
func (l *learning) testSites(ctx context.Context, k bridge.Sequences, j learn.JoinResult, o offline.RetrainOptions) (all []siteResult, err error) {
	if l.site == nil {
		return nil, nil
	}
	of := map[string][]int{}
	for i := range j.Examples {
		if site := l.site(j.Examples[i].Stream); site != "" {
			of[site] = append(of[site], i)
		}
	}
	names := slices.Sorted(maps.Keys(of))
	if len(names) > mostSites {
		return nil, fmt.Errorf("--leave-out makes %d groups, each of which needs a readout of its own: want at most %d", len(names), mostSites)
	}
	k.Adaptive = 0 // only classes are tested
	p := l.app.Progress()
	defer p.Close()
	for n, site := range names {
		p.Report(int64(n), int64(len(names)), "groups left out")
		var rest []learn.Example
		var tested []int
		for i := range j.Examples {
			switch {
			case l.site(j.Examples[i].Stream) != site:
				rest = append(rest, j.Examples[i])
			case !l.store.HasSummed(j.Examples[i : i+1]):
				tested = append(tested, i)
			}
		}
		r := siteResult{Site: site, Sequences: len(tested), Summed: len(of[site]) - len(tested)}
		if m, _, err := l.relearn(ctx, k.Without(of[site]), rest, o, nil); ctx.Err() != nil {
			return nil, ctx.Err()
		} else if err != nil {
			r.Why = cli.ErrorText(err)
		} else if r.Correct, err = k.Test(m, tested); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}
