package offlinecmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/archives"
	"github.com/eusn-stream/eusn-stream/internal/cli/engines"
	"github.com/eusn-stream/eusn-stream/internal/cli/models"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/readout"
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

// paperFlags belong to the paper's networks: giving one asks for such a network.
var paperFlags = map[string][]string{
	"eps": {"eusn"}, "gamma": {"eusn"}, "recurrent": {"eusn"},
	"spectral-radius": {"esn", "resn"}, "leak": {"esn", "resn"},
	"input": {"eusn", "esn", "resn"}, "bias": {"eusn", "esn", "resn"},
}

func (n *networkFlags) add(f *pflag.FlagSet) {
	f.StringVar(&n.network, "network", "bank", "bank, or a single network as in the paper: eusn, esn, resn")
	f.StringVar(&n.bank, "bank", reservoir.Banks[0], "recipe of the bank: standard, large, small, tiny, or v1, the default before (docs/mixed-bank.md says which for how many streams)")
	f.IntVar(&n.members, "members", 40, "networks in the bank v1; asks for that bank")
	f.IntVar(&n.scales.Units, "units", 0, "units of each network (default 50 in the bank v1, which it asks for, 100 for a single network)")
	f.Float64Var(&n.scales.Eps, "eps", 0.01, "eusn: step size")
	f.Float64Var(&n.scales.Gamma, "gamma", 0.001, "eusn: diffusion")
	f.Float64Var(&n.scales.Recurrent, "recurrent", 0.1, "eusn: range of the recurrent weights")
	f.Float64Var(&n.scales.SpectralRadius, "spectral-radius", 0.9, "esn, resn: spectral radius")
	f.Float64Var(&n.scales.Leak, "leak", 0.1, "esn, resn: leak rate")
	f.Float64Var(&n.scales.Input, "input", 1, "single network: range of the input weights")
	f.Float64Var(&n.scales.Bias, "bias", 0.1, "single network: range of the biases")
	f.Uint64Var(&n.scales.Seed, "seed", reservoir.DefaultSeed, "seed of the weights")
	f.StringSliceVar(&n.features, "features", nil, "features of each unit: last, mean, ppv, max, std (default: all in the bank v1, which it asks for, last for a single network)")
	f.BoolVar(&n.tf32, "tf32", false, "round weights to 10 mantissa bits")
	f.Float64SliceVar(&n.alphas, "alpha", nil, "regularisation; leave-one-out chooses among several (default 1e-3..1e6 for a bank, 1 for a single network)")
	f.Lookup("alpha").DefValue = "" // named in the text
	f.BoolVar(&n.ridge, "ridge", false, "always use the ridge classifier, even if leave-one-out prefers the linear discriminant (single networks always do)")
	f.BoolVar(&n.raw, "raw-features", false, "do not standardise the features (as single networks never do)")
}

// check refuses flags that contradict each other, and lets one of the paper's
// parameters alone choose the paper's network.
func (n *networkFlags) check(f *pflag.FlagSet) error {
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
		if err := readout.CheckAlphas(n.alphas); err != nil {
			return fmt.Errorf("--alpha: %w", err)
		}
	}
	return n.options(1).Spec.ForLength(1).Validate() // what is wrong with one channel is wrong with all
}

// checkBank refuses flags that the bank, or the network that is none, has not.
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
			n.bank = "v1" // the others have fixed ones
		}
		if n.bank != "v1" {
			return fmt.Errorf("--%s is a parameter of --bank v1, not of %s", name, n.bank)
		}
	}
	return nil
}

// options makes the training options for data of that many channels.
func (n *networkFlags) options(channels int) offline.RetrainOptions {
	o := offline.RetrainOptions{Alphas: n.alphas, RawFeatures: n.raw, RidgeOnly: n.ridge, Tool: cli.ToolName()}
	if n.network == "bank" {
		o.Spec, _ = reservoir.Bank(n.bank, channels) // checkBank knows the names
		o.Spec.Seed = n.scales.Seed
		if n.bank == "v1" {
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

func newRetrain(a *cli.App) *cobra.Command {
	var net networkFlags
	var pol PolicyFlags
	var scale scaleFlags
	var archive, labels, out, head string
	var rate rateFlag
	var front frontFlag
	var threads int
	cmd := &cobra.Command{
		Use:   "retrain [--merge FILE...]",
		Short: "Train a model on the training part of an archive, or on a recording",
		Long: `Draw a reservoir from its seed, run every training series through it, and fit a
linear classifier to its features. --policy cuts series into
sequences, as the live stage will cut streams; leave-one-out leaves out whole series.
A recording has no test part: the training uses all of it. The label of a sequence is
the one that all its samples have; a sequence with several labels is not used.

The default is a bank of 120 networks of 16 units (--bank standard). Leave-one-out chooses
between ridge classifier and linear discriminant, and the regularisation. --network eusn,
esn or resn, or one of their parameters, gives a single network as in the paper. The
training never reads the test part.

large is a little more accurate than standard, for twice the time. small and tiny are
less accurate, for an eighth and a twentieth of the multiplications, and less state. All
are more accurate than --bank v1, the default before: 40 networks of 50 units.

If there are more sequences than features, the training adds features up instead of
keeping them, and its memory does not grow with the number of sequences: the 15,360
features of standard take 3.1 GB in addition to the data, the 5,120 of small 0.5 GB.
Leave-one-out then uses a
random part of the sequences: 2,730 of them for 15,360 features. All banks but v1 then
run every sequence twice, because features must be known before they can be limited.
The command prints the memory that it needs before it starts; --memory limits it.

Several jobs can train one model on a data set: run the same command with --shard 1/n
to n/n, each with its own --out, then --merge. Each job reads the whole archive,
because all series together determine the scale of the input. If there are more
sequences than features, each also runs all of them through the network (but for v1),
because all together determine the limits of the features. The model equals that
of a single job; if there are more sequences than features, it can differ in the last
bits. The same shards always give the same bits.`,
		Example: `  eusn-stream offline retrain --archive Adiac.parquet --out adiac.safetensors
  eusn-stream offline retrain --archive recording.parquet --policy window --length 256 --hop 64 --out plant.safetensors
  eusn-stream offline retrain --archive recorded/ --labels labels.csv --out plant.safetensors
  eusn-stream offline retrain --archive Adiac.parquet --units 200 --eps 0.01 --gamma 0.001 --out paper.safetensors
  eusn-stream offline retrain --archive Adiac.parquet --bank small --out adiac.safetensors
  eusn-stream offline retrain --archive big.parquet --shard 3/8 --out part3.stats
  eusn-stream offline retrain --merge part*.stats --out big.safetensors`,
		Args: cobra.ArbitraryArgs, // scaleFlags.check knows more
	}
	f := cmd.Flags()
	f.StringVar(&archive, "archive", "", "Parquet archive, as written by import: a data set, or a recording with labels; or the folder of eusn-stream record, or a pattern of its files")
	f.StringVar(&labels, "labels", "", "what the samples of a recording were, instead of its column label: CSV with stream,from,to,label, or what labels export or labels list --json prints")
	f.StringVarP(&out, "out", "o", "model.safetensors", "model file to write; replaces an older one when the training is complete")
	f.StringVar(&head, "head", "", "name of the trained readout (default \"default\")")
	f.Var(&rate, "rate", "sampling rate of the data, such as 100Hz or 25.6kHz (default: that of the samples' times, where a recording has them)")
	f.Var(&front, "front", "front end of the model, such as envelope=10ms,decimate=20: parts of centre, normalise, envelope, decimate, with lengths in samples or time")
	f.IntVar(&threads, "threads", 0, "cores to use; 0 = all. The result does not depend on it")
	net.add(f)
	pol.Add(f)
	scale.add(f)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := scale.check(cmd, args); err != nil {
			return err
		}
		budget, err := scale.bytes()
		if err != nil {
			return err
		}
		var shard offline.Shard
		if scale.shard != "" {
			if shard, err = parseShard(scale.shard); err != nil {
				return err
			}
		}
		policy, err := pol.Parse(f)
		if err := errors.Join(err, net.check(f)); err != nil {
			return err
		}
		if threads < 0 {
			return fmt.Errorf("--threads %d: want 0 or more", threads)
		}
		if out == "" {
			return errors.New("--out: want the name of a file")
		}
		return a.Do(func(ctx context.Context, files []string) error {
			keepWithin(budget)
			if err := cli.OutputFile(out, append(files, archive, labels)...); err != nil {
				return err
			}
			if scale.merge {
				return mergeShards(ctx, a, files, offline.RetrainOptions{Memory: budget}, out)
			}
			src, err := archives.Open(archive)
			if err == nil {
				err = src.ReadLabels(labels)
			}
			if err != nil {
				return err
			}
			o := net.options(src.Channels)
			o.Policy, o.Readout, o.Threads, o.Memory, o.Rate, o.Front = policy, head, threads, budget, float64(rate), offline.Front(front)
			if o.NewEngine, err = engineFor(a, o.Spec); err != nil {
				return err
			}
			if scale.shard != "" {
				return retrainShard(ctx, a, src, o, shard, out)
			}
			return retrain(ctx, a, src, o, out)
		})(cmd, args)
	}
	return cmd
}

// engineFor opens engines for a network of the recipe, and says where that is slow.
func engineFor(a *cli.App, s reservoir.Spec) (func(*reservoir.Network, int) (reservoir.Engine, error), error) {
	kind, slow, err := engines.Choose(a.Engine, s)
	if slow != "" {
		a.Say("note: %s", slow)
	}
	return engines.New(kind), err
}

// saveTrained saves a model, if its training had no error.
func saveTrained(ctx context.Context, m *reservoir.Model, err error, out string, s reservoir.Spec) error {
	if err == nil {
		err = errors.Join(ctx.Err(), m.Save(out))
	}
	return notTrained(err, out, s)
}

// notTrained says what to do after an error: where memory is too small for the
// network, take a smaller bank.
func notTrained(err error, out string, s reservoir.Spec) error {
	if err == nil {
		return nil
	}
	next := "eusn-stream offline retrain --help"
	if errors.Is(err, readout.ErrMemory) {
		for _, name := range []string{"standard", "small", "tiny"} {
			if b, known := reservoir.Bank(name, 1); known == nil && 2*b.FeatureCount() <= s.FeatureCount() {
				next = "eusn-stream offline retrain --bank " + name + " --archive ARCHIVE, or more --memory"
				break
			}
		}
	}
	return cli.Fail(cli.ExitFailure, cli.OrInterrupted(err, "%s is unchanged, or complete and new", out), next)
}

func retrain(ctx context.Context, a *cli.App, src archives.Labelled, o offline.RetrainOptions, out string) error {
	o.Planned = func(r offline.RetrainReport) { SayPlanned(a, src, o.Policy, r) }
	p := a.Progress()
	m, report, err := src.Retrain(ctx, o, p.Report)
	p.Close()
	if err := saveTrained(ctx, m, err, out, o.Spec); err != nil {
		return err
	}
	if err := sayTrained(a, out, report); err != nil || a.JSON {
		return err
	}
	if report.Unlabelled > 0 && src.Set != nil {
		a.Say("note: %d training series have no label and were left out", report.Unlabelled)
	}
	if report.Empty > 0 {
		a.Say("warning: %d training %s have no values; the training treated them as constant", report.Empty, src.Words())
	}
	if len(report.Silent) > 0 {
		a.Say("warning: the training part of %s has no values; the model learned nothing from it", models.ListText(report.Silent))
	}
	other, next := cli.QuoteForShell(src.Path), ""
	switch {
	case src.Set == nil:
		other = "RECORDING" // another one: this one was learnt from
	case len(src.Set.Part(offline.Test)) == 0:
		next = " --split train" // there is no other
	}
	a.Say("next: eusn-stream offline evaluate --model %s --archive %s%s", cli.QuoteForShell(out), other, next)
	return nil
}

// sayTrained shows the model that was made, and how.
func sayTrained(a *cli.App, out string, report offline.RetrainReport) error {
	r, err := models.Inspect(out)
	if err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(struct {
			Model  models.Report         `json:"model"`
			Report offline.RetrainReport `json:"report"`
		}{r, report})
	}
	models.Print(a, r)
	a.Say("states %.1f s, readout %.1f s", report.StateSeconds, report.FitSeconds)
	if report.Missing > 0 {
		a.Say("note: %d missing values were filled with the value before them", report.Missing)
	}
	return nil
}

// sayRate says at what sampling rate is trained, and of pauses within sequences:
// the live stage will not flag any that are no longer.
func sayRate(a *cli.App, r offline.RetrainReport) {
	a.Say("sampling rate %g Hz: the live stage flags sequences at another rate", r.Sampling.Rate)
	if intervals := float64(r.Sampling.Longest) / 1e9 * r.Sampling.Rate; intervals > manyIntervals {
		a.Say("note: samples of training sequences are up to %.4g s apart, as long as %.0f intervals of that rate; shorter pauses will not be flagged; give --rate if these are faults of the recording", float64(r.Sampling.Longest)/1e9, intervals)
	}
}

// manyIntervals between two samples are no jitter of a clock.
const manyIntervals = 3

// SayPlanned says what will be learnt from.
func SayPlanned(a *cli.App, src archives.Labelled, p reservoir.Policy, r offline.RetrainReport) {
	length := fmt.Sprint(r.MinLength)
	if r.MaxLength != r.MinLength {
		length += fmt.Sprintf(" to %d", r.MaxLength)
	}
	a.Say("training on %d sequences of %s samples, cut from %d %s as the live stage cuts them: %s", r.Sequences, length, r.Series, src.Words(), models.PolicyText(p))
	a.Say("%s", planText(r.Plan))
	if r.Sampling.Rate > 0 {
		sayRate(a, r)
	}
	if r.Unused > 0 {
		a.Say("note: %d samples after the last sequence of their %s are not used", r.Unused, src.Words())
	}
	if r.Mixed > 0 {
		a.Say("note: %d sequences hold samples with several labels and are left out", r.Mixed)
	}
	if r.Unlabelled > 0 {
		a.Say("note: %d sequences have no label and are left out", r.Unlabelled)
	}
	if len(r.Divided) > 0 {
		a.Say("warning: all data of %s come from one continuous interval: leave-one-out can leave out only parts of it and keeps their neighbours, so its accuracy is too optimistic", models.ListText(r.Divided))
	}
}
