package offlinecmd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/fit"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// networkFlags choose the reservoir of a training.
type networkFlags struct {
	network  string // bank, eusn, esn, resn
	bank     string // of reservoir.Banks
	members  int
	scales   reservoir.PaperOptions // of the paper's networks; Units and Seed of the bank too
	features []string
	tf32     bool
	alphas   []float64
	raw      bool
	ridge    bool
}

// paperFlags belong to the paper's networks: each flag selects such a network.
var paperFlags = map[string][]string{
	"eps": {"eusn"}, "gamma": {"eusn"}, "recurrent": {"eusn"},
	"spectral-radius": {"esn", "resn"}, "leak": {"esn", "resn"},
	"input": {"eusn", "esn", "resn"}, "bias": {"eusn", "esn", "resn"},
}

func (n *networkFlags) addFlags(f *pflag.FlagSet) {
	f.StringVar(&n.network, "network", "bank", "bank, or a single network as in the paper: eusn, esn, resn")
	f.StringVar(&n.bank, "bank", reservoir.Banks[0], "recipe of the bank: standard, large, small, tiny, or euler, networks of the paper's kind (docs/mixed-bank.md recommends one by the number of streams)")
	f.IntVar(&n.members, "members", 40, "networks in the bank euler; asks for that bank")
	f.IntVar(&n.scales.Units, "units", 0, "units of each network (default 50 in the bank euler, which it asks for, 100 for a single network)")
	f.Float64Var(&n.scales.Eps, "eps", 0.01, "eusn: step size")
	f.Float64Var(&n.scales.Gamma, "gamma", 0.001, "eusn: diffusion")
	f.Float64Var(&n.scales.Recurrent, "recurrent", 0.1, "eusn: range of the recurrent weights")
	f.Float64Var(&n.scales.SpectralRadius, "spectral-radius", 0.9, "esn, resn: spectral radius")
	f.Float64Var(&n.scales.Leak, "leak", 0.1, "esn, resn: leak rate")
	f.Float64Var(&n.scales.Input, "input", 1, "single network: range of the input weights")
	f.Float64Var(&n.scales.Bias, "bias", 0.1, "single network: range of the biases")
	f.Uint64Var(&n.scales.Seed, "seed", reservoir.DefaultSeed, "seed of the weights")
	f.StringSliceVar(&n.features, "features", nil, "features of each unit: last, mean, ppv, max, std (default: all in the bank euler, which it asks for, last for a single network)")
	f.BoolVar(&n.tf32, "tf32", false, "round weights to 10 mantissa bits")
	f.Float64SliceVar(&n.alphas, "alpha", nil, "regularization; leave-one-out chooses among several (default 1e-3..1e6 for a bank, 1 for a single network)")
	f.Lookup("alpha").DefValue = "" // named in the text
	f.BoolVar(&n.ridge, "ridge", false, "always use the ridge classifier, even if leave-one-out prefers the linear discriminant (single networks always do)")
	f.BoolVar(&n.raw, "raw-features", false, "do not standardize the features (as single networks never do)")
}

// checkFlags refuses flags that contradict each other, and lets any of the paper's parameters choose the paper's
// network.
func (n *networkFlags) checkFlags(f *pflag.FlagSet) error {
	if n.network == "bank" && !f.Changed("network") {
		for _, name := range []string{"spectral-radius", "leak", "eps", "gamma", "recurrent", "input", "bias"} {
			if f.Changed(name) {
				n.network = paperFlags[name][0]
			}
		}
	}
	if !slices.Contains([]string{"bank", "eusn", "esn", "resn"}, n.network) {
		return fmt.Errorf("--network %s: want bank, eusn, esn or resn", n.network)
	}
	for name, networks := range paperFlags {
		if f.Changed(name) && !slices.Contains(networks, n.network) {
			return fmt.Errorf("--%s is a parameter of --network %s, not of %s", name, strings.Join(networks, ", "), n.network)
		}
	}
	if err := n.checkBank(f); err != nil {
		return err
	}
	if f.Changed("units") && n.scales.Units < 1 {
		return fmt.Errorf("--units %d: want 1 to %d", n.scales.Units, reservoir.MaxUnits)
	}
	if f.Changed("alpha") {
		if err := fit.CheckAlphas(n.alphas); err != nil {
			return fmt.Errorf("--alpha: %w", err)
		}
	}
	return n.options(1).Spec.ForLength(1).Validate() // an error with one channel is an error with all
}

// checkBank refuses flags without a meaning for the bank, or for network none.
func (n *networkFlags) checkBank(f *pflag.FlagSet) error {
	for _, name := range []string{"members", "bank"} {
		if n.network != "bank" && f.Changed(name) {
			return fmt.Errorf("--%s is a parameter of --network bank, not of %s", name, n.network)
		}
	}
	if !slices.Contains(reservoir.Banks, n.bank) {
		return fmt.Errorf("--bank %s: want one of %s", n.bank, strings.Join(reservoir.Banks, ", "))
	}
	for _, name := range []string{"members", "units", "features"} {
		if n.network != "bank" || !f.Changed(name) {
			continue
		}
		if !f.Changed("bank") {
			n.bank = "euler" // the others have fixed ones
		}
		if n.bank != "euler" {
			return fmt.Errorf("--%s is a parameter of --bank euler, not of %s", name, n.bank)
		}
	}
	return nil
}

// options makes the training options for data with the given number of channels.
func (n *networkFlags) options(channels int) offline.RetrainOptions {
	o := offline.RetrainOptions{Alphas: n.alphas, RawFeatures: n.raw, RidgeOnly: n.ridge, Tool: cli.ToolName()}
	if n.network == "bank" {
		o.Spec, _ = reservoir.Bank(n.bank, channels) // checkBank knows the names
		o.Spec.Seed = n.scales.Seed
		if n.bank == "euler" {
			o.Spec.Members = n.members
		}
		if n.scales.Units != 0 {
			o.Spec.Units = n.scales.Units
		}
	} else {
		n.scales.Kind = reservoir.Kind(n.network)
		o.Spec = reservoir.Paper(channels, n.scales)
		o.RawFeatures, o.RidgeOnly = true, true
		if len(o.Alphas) == 0 {
			o.Alphas = []float64{1}
		}
	}
	if len(n.features) > 0 {
		o.Spec.Features = nil
		for _, name := range n.features {
			o.Spec.Features = append(o.Spec.Features, reservoir.Feature(name))
		}
	}
	if n.tf32 {
		o.Spec.Precision = reservoir.TF32
	}
	return o
}
