package offlinecmd

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

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

// Parse refuses parameters of another policy: a forgotten --policy would
// otherwise quietly train a model that cuts nothing.
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
