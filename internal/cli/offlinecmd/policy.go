package offlinecmd

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/eusn-stream/eusn-stream/internal/choose"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/archives"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// PolicyFlags choose how the live stage will cut streams into sequences.
type PolicyFlags struct {
	Name string
	reservoir.Policy
}

// Add adds the flags.
func (p *PolicyFlags) Add(f *pflag.FlagSet) {
	f.StringVar(&p.Name, "policy", "marked", "where training and the live stage end a sequence: marked, window, count, gap or endless")
	f.IntVar(&p.Length, "length", 0, "window, count: samples of a sequence")
	f.IntVar(&p.Hop, "hop", 0, "window: samples from one prediction to the next")
	f.DurationVar(&p.Gap, "gap", 0, "gap: silence that ends a sequence")
	f.IntVar(&p.Early, "early", 0, "also predict after each N samples; 0 = never; the policy endless needs it")
}

// policyParameters are the policies each of the flags is for.
var policyParameters = map[string][]string{"length": {"window", "count"}, "hop": {"window"}, "gap": {"gap"}}

// Parse refuses parameters of another policy: without --policy, a model that cuts nothing would be trained without a
// warning.
func (p *PolicyFlags) Parse(f *pflag.FlagSet) (reservoir.Policy, error) {
	p.Kind = reservoir.PolicyKind(p.Name)
	if err := p.Validate(); err != nil {
		return p.Policy, err
	}
	for _, name := range slices.Sorted(maps.Keys(policyParameters)) {
		if policies := policyParameters[name]; f.Changed(name) && !slices.Contains(policies, p.Name) {
			return p.Policy, fmt.Errorf("--%s is a parameter of --policy %s, not of %s", name, strings.Join(policies, ", "), p.Name)
		}
	}
	return p.Policy, nil
}

const (
	shortRun = 1000 // samples: a prediction at each sample of such a run costs little
	perRun   = 40   // training sequences of a short run with numbers
)

// openPolicy is a training without --policy.
type openPolicy struct {
	marked  reservoir.Policy // of data with end marks
	rate    float64          // in Hz; 0: the rate of the recording's times
	hop     int              // of training sequences
	numbers bool             // a number is learned
	search  bool             // settings are searched
}

// choosePolicy returns the policy for data without --policy: end marks; or for a continuous recording, in which no
// sequence ends, windows that overlap by half. Short runs with numbers, such as the cycles of a machine until its failure, get a
// prediction at each sample, and hop is the interval of the training sequences.
func choosePolicy(ctx context.Context, a *cli.App, src archives.Labeled, open openPolicy) (p reservoir.Policy, hop int, err error) {
	continuous, samples, measured, err := src.Continuous(ctx)
	if err != nil || !continuous {
		return open.marked, open.hop, err
	}
	rate := cmp.Or(open.rate, measured)
	if open.search && open.numbers && samples <= shortRun {
		p, hop = reservoir.Policy{Kind: reservoir.Endless, Early: cmp.Or(open.marked.Early, 1)}, max(1, samples/perRun)
		hop = (hop + p.Early - 1) / p.Early * p.Early
		a.Say("short runs with numbers: a prediction at each sample, as with --policy endless --early %d --train-hop %d; change with --policy", p.Early, hop)
		return p, hop, p.Validate()
	}
	p = choose.DefaultPolicy(samples, rate, open.marked.Early)
	if !open.search {
		length, every := fmt.Sprintf("%d samples", p.Length), fmt.Sprint(p.Hop)
		if rate > 0 {
			length, every = fmt.Sprintf("%.3g s", float64(p.Length)/rate), fmt.Sprintf("%.3g s", float64(p.Hop)/rate)
		}
		a.Say("continuous series: windows of %s, every %s; change with --policy window --length %d --hop %d", length, every, p.Length, p.Hop)
	}
	return p, open.hop, p.Validate()
}
