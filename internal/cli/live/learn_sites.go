package live

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/pipeline/learn"
)

// parseSite reads --leave-out: what is the site of a stream; empty: of none.
func parseSite(text string) (func(stream string) string, error) {
	switch text {
	case "":
		return nil, nil
	case "stream":
		return func(stream string) string { return stream }, nil
	}
	p, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("--leave-out: %w", err)
	}
	if p.NumSubexp() < 1 {
		return nil, fmt.Errorf("--leave-out %s: want stream, or a regular expression with a group for the site, such as ^(hall[0-9]+)-", text)
	}
	return func(stream string) string {
		if found := p.FindStringSubmatch(stream); found != nil {
			return found[1]
		}
		return ""
	}, nil
}

// siteResult is how a readout that has not seen a site does there.
type siteResult struct {
	Site      string `json:"site"`
	Sequences int    `json:"sequences"`
	Correct   int    `json:"correct"`
	Why       string `json:"why,omitempty"` // it could not be tested
}

func (r siteResult) String() string {
	if r.Why != "" {
		return fmt.Sprintf("%d sequences, not tested: %s", r.Sequences, r.Why)
	}
	return fmt.Sprintf("%d of %d sequences right (%.1f %%)", r.Correct, r.Sequences, 100*float64(r.Correct)/float64(r.Sequences))
}

// mostSites bounds how many readouts are learnt.
const mostSites = 100

// sites tests each site with a readout that was learnt from the others alone.
func (l *learning) sites(ctx context.Context, k offline.Known, j learn.Joined, o offline.RetrainOptions) (all []siteResult, err error) {
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
	p := l.app.Progress()
	defer p.Close()
	for n, site := range names {
		p.Report(int64(n), int64(len(names)), "groups left out")
		r := siteResult{Site: site, Sequences: len(of[site])}
		rest := k.Without(of[site])
		if m, _, err := offline.Relearn(ctx, l.model, rest, o, nil); ctx.Err() != nil {
			return nil, ctx.Err()
		} else if err != nil {
			r.Why = err.Error()
		} else if r.Correct, err = k.Test(m, of[site]); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}
