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

// choosePolicy returns the policy for data without --policy: end marks, or for a continuous recording, in which no
// sequence ends, windows that overlap by half. rate is the sampling rate in Hz; 0: the rate of the recording's times.
func choosePolicy(ctx context.Context, a *cli.App, src archives.Labeled, marked reservoir.Policy, rate float64, say bool) (reservoir.Policy, error) {
	continuous, samples, measured, err := src.Continuous(ctx)
	if err != nil || !continuous {
		return marked, err
	}
	rate = cmp.Or(rate, measured)
	p := choose.DefaultPolicy(samples, rate, marked.Early)
	length, hop := fmt.Sprintf("%d samples", p.Length), fmt.Sprint(p.Hop)
	if rate > 0 {
		length, hop = fmt.Sprintf("%.3g s", float64(p.Length)/rate), fmt.Sprintf("%.3g s", float64(p.Hop)/rate)
	}
	if say {
		a.Say("continuous series: windows of %s, every %s; change with --policy window --length %d --hop %d", length, hop, p.Length, p.Hop)
	}
	return p, p.Validate()
}
