package offlinecmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eusn-stream/eusn-stream/internal/choose"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/archives"
	"github.com/eusn-stream/eusn-stream/internal/cli/engines"
	"github.com/eusn-stream/eusn-stream/internal/cli/models"
	"github.com/eusn-stream/eusn-stream/internal/fit"
	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// retrainFlags are the flags of retrain.
type retrainFlags struct {
	archive, labels, out, readout string
	threads, hop                  int
	search                        time.Duration
	group                         groupFlags
	rate                          rateFlag
	front                         frontFlag
	settings                      []string
	merges                        mergeFlag
	regimes                       int
	net                           networkFlags
	policy                        PolicyFlags
	certainty                     certaintyFlags
	scale                         scaleFlags
	novelty                       noveltyFlags
	decide                        DecideFlags
}

// NewTrain makes the training command: "train", also available as "offline retrain".
func NewTrain(a *cli.App, name string) *cobra.Command {
	var flags retrainFlags
	cmd := &cobra.Command{
		Use:   name + " DATA | --merge FILES",
		Short: "Train a model on a data set or a recording",
		Long: `DATA is a Parquet archive, or tables or a published data set (` + dataColumns + `).

Draw a reservoir from its seed, run every training series through it, and fit a
linear classifier to its features. --policy cuts series into
sequences, as the live stage will cut streams; leave-one-out leaves out whole series.
--group leaves out all of a machine, a person or a day at once: it is for data in which
these come again, and shows what a new one can expect.
A recording has no test part: the training uses all of it. The label of a sequence is
the one that all its samples have; a sequence with several labels is not used.

--target learns a number instead of a class: ridge regression of the features of the network,
or of random features if leave-one-out is better with them, with an interval for each
prediction.

The default is a bank of 120 networks of 16 units (--bank standard). Leave-one-out chooses
between ridge classifier and linear discriminant, and the regularization. --network eusn,
esn or resn, or one of their parameters, gives a single network as in the paper. The
training never reads the test part.

large is a little more accurate than standard, for twice the time. small and tiny are
less accurate, for an eighth and a twentieth of the multiplications, and less state. All
are more accurate than --bank euler, which has 40 Euler State Networks of 50 units.

If there are more sequences than features, the training adds features up instead of
keeping them, and its memory does not grow with the number of sequences: the 15,360
features of standard take 3.1 GB in addition to the data, the 5,120 of small 0.5 GB.
Leave-one-out then uses a
random part of the sequences: 2,730 of them for 15,360 features. All banks but euler then
run every sequence twice, because features must be known before they can be limited.
The command prints the memory that it needs before it starts; --memory limits it.

Several jobs can train one model on a data set: run the same command with --shard 1/n
to n/n, each with its own --output, then --merge. Each job reads the whole archive,
because all series together determine the scale of the input. If there are more
sequences than features, each also runs all of them through the network (but for euler),
because all together determine the limits of the features. The model equals that
of a single job with --segments none; if there are more sequences than features, it can
differ in the last bits. The same shards always give the same bits.`,
		Example: `  eusn-stream train Adiac.parquet --output adiac.safetensors
  eusn-stream train recording.parquet --policy window --length 256 --hop 64 --output plant.safetensors
  eusn-stream train recorded/ --labels labels.csv --output plant.safetensors
  eusn-stream train recorded/ --labels labels.csv --group '^(hall[0-9]+)-' --output plant.safetensors
  eusn-stream train Adiac.parquet --coverage 0.95 --output adiac.safetensors
  eusn-stream train Adiac.parquet --max-error 0.02 --output adiac.safetensors
  eusn-stream train wear.parquet --target remaining --coverage 0.9 --output wear.safetensors
  eusn-stream train Adiac.parquet --units 200 --eps 0.01 --gamma 0.001 --output paper.safetensors
  eusn-stream train Adiac.parquet --bank small --output adiac.safetensors
  eusn-stream train big.parquet --shard 3/8 --output part3.stats
  eusn-stream train --merge part*.stats --output big.safetensors`,
		Args: cobra.ArbitraryArgs, // scaleFlags.check knows more
	}
	flags.addFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		t, err := flags.readFlags(cmd, args)
		if err != nil {
			return err
		}
		return a.Do(func(ctx context.Context, files []string) error { return t.runTraining(ctx, a, files) })(cmd, args)
	}
	return cmd
}

func (r *retrainFlags) addFlags(f *pflag.FlagSet) {
	f.StringVar(&r.labels, "labels", "", "what the samples of a recording were, instead of its column label: CSV with stream,from,to,label, or what labels export or labels list --json prints")
	r.group.addFlags(f, "; leave-one-out then leaves out whole groups")
	f.StringVarP(&r.out, "output", "o", "model.safetensors", "model file to write; replaces an older one when the training is complete")
	f.StringVar(&r.readout, "readout", "", "name of the trained readout (default \"default\")")
	f.Var(&r.rate, "sample-rate", "sampling rate of the data, such as 100Hz or 25.6kHz (default: that of the samples' times, where a recording has them)")
	f.Var(&r.front, "front", "front end of the model, such as envelope=10ms,decimate=20: parts of center, normalize, smooth, envelope, decimate, with lengths in samples or time")
	f.StringSliceVar(&r.settings, "settings", nil, "channels that determine the operating regime, such as speed,load: the others are standardized within each regime, and the settings are left out (docs/front-end.md)")
	f.IntVar(&r.regimes, "regimes", 0, "with --settings: number of operating regimes; 0 = as many as the settings show")
	r.merges.addFlag(f)
	f.IntVar(&r.threads, "threads", 0, "cores to use; 0 = all. The result does not depend on it")
	f.IntVar(&r.hop, "train-hop", 0, "window, endless: samples from one training sequence of a stream to the next, a multiple of --hop or --early; 0 = learn from every prediction")
	f.DurationVar(&r.search, "search", defaultSearch, searchUsage)
	r.net.addFlags(f)
	r.policy.Add(f)
	f.Lookup("policy").Usage += "; without it, chosen for a recording in which no sequence ends (--search)"
	r.certainty.addFlags(f)
	r.scale.addFlags(f)
	r.novelty.addFlags(f)
	r.decide.Add(f)
}

// training is a request to retrain.
type training struct {
	flags   *retrainFlags
	memory  int64 // bytes
	shard   offline.Shard
	policy  reservoir.Policy
	choose  bool // the policy is chosen by the data
	asked   bool // for a search
	groups  grouping
	novelty *offline.NoveltyOptions
	early   *offline.EarlyOptions
	choices []reservoir.Choice
}

// readFlags checks the flags and the arguments.
func (r *retrainFlags) readFlags(cmd *cobra.Command, args []string) (t training, err error) {
	f := cmd.Flags()
	t.flags = r
	if err := r.scale.checkFlags(cmd, args); err != nil {
		return t, err
	}
	if !r.scale.merge {
		r.archive = args[0]
	}
	if t.memory, err = r.scale.bytes(); err != nil {
		return t, err
	}
	if r.scale.shard != "" {
		if t.shard, err = parseShard(r.scale.shard); err != nil {
			return t, err
		}
	}
	t.choose, t.asked = !f.Changed("policy"), f.Changed("search")
	t.policy, err = r.policy.Parse(f)
	if err := errors.Join(err, r.net.checkFlags(f), r.certainty.checkFlags(f)); err != nil {
		return t, err
	}
	if r.threads < 0 {
		return t, fmt.Errorf("--threads %d: want 0 or more", r.threads)
	}
	if r.search < 0 {
		return t, fmt.Errorf("--search %v: want a time, or 0 for no search", r.search)
	}
	if r.hop < 0 {
		return t, fmt.Errorf("--train-hop %d: want 0 or more", r.hop)
	}
	if r.out == "" {
		return t, errors.New("--output: want the name of a file")
	}
	if t.novelty, err = r.novelty.options(f); err != nil {
		return t, err
	}
	if err = r.merges.parse(); err != nil {
		return t, err
	}
	if t.early, err = r.decide.Options(f); err != nil {
		return t, err
	}
	if t.groups, err = r.group.readFlags(); err != nil {
		return t, err
	}
	return t, t.checkTogether()
}

// checkTogether refuses flags that exclude each other.
func (t *training) checkTogether() error {
	c, shard := &t.flags.certainty, t.flags.scale.shard != ""
	several := shard || t.flags.scale.merge
	return cli.CheckRules([]cli.Rule{
		{Broken: c.target != "" && several, Message: "--target, and --shard or --merge: files of statistics do not hold numbers: train in one job"},
		{Broken: c.target != "" && t.flags.labels != "", Message: "--target and --labels: numbers come from a column of the archive: leave --labels out"},
		{Broken: shard && (c.coverage != 0 || c.maxError != 0 || c.priors != "" || c.weights != ""), Message: "--coverage, --max-error, --priors or --class-weights, and --shard: files of statistics do not hold them: train in one job"},
		{Broken: t.novelty != nil && several, Message: "--novelty or --healthy-only, and --shard or --merge: a detector is learned from all sequences at once: train in one job"},
		{Broken: t.early != nil && several, Message: "--decide, and --shard or --merge: when a prefix suffices is learned from all sequences at once: train in one job"},
		{Broken: len(t.flags.merges.texts) > 0 && (several || c.target != ""), Message: "--merge-classes, and --shard, --merge or --target: classes are merged in one job, and numbers have none"},
		{Broken: t.groups.rule != nil && shard, Message: "--group or --parts, and --shard: a group has sequences in several shards, and must be left out of all at once: train in one job"},
	})
}

// runTraining trains on an archive, or merges the files of its shards.
func (t *training) runTraining(ctx context.Context, a *cli.App, files []string) error {
	r := t.flags
	keepWithin(t.memory)
	if err := cli.OutputFile(r.out, append(files, r.archive, r.labels, r.group.parts)...); err != nil {
		return err
	}
	if r.scale.merge {
		return mergeShards(ctx, a, files, offline.RetrainOptions{Memory: t.memory}, r.out)
	}
	src, err := openGrouped(ctx, a, r.archive, r.labels, t.groups.rule)
	if err != nil {
		return err
	}
	defer src.Close()
	if err := t.chooseTask(ctx, a, &src, &r.certainty); err != nil {
		return err
	}
	if err := src.ReadTarget(r.certainty.target); err != nil {
		return err
	}
	if t.choose {
		if t.policy, r.hop, err = choosePolicy(ctx, a, src, openPolicy{t.policy, float64(r.rate), r.hop, r.certainty.target != "", t.searches()}); err != nil {
			return err
		}
	}
	o := r.net.options(src.Channels)
	o.Policy, o.Readout, o.Threads, o.Memory, o.Rate, o.Front = t.policy, r.readout, r.threads, t.memory, float64(r.rate), offline.Front(r.front)
	o.TrainHop, o.Settings, o.Regimes = r.hop, r.settings, r.regimes
	o.Groups, o.Parts, o.Novelty, o.Early = r.group.group, t.groups.encoded, t.novelty, t.early
	o.Merges = r.merges.parsed
	r.certainty.set(&o)
	if r.scale.shard != "" && r.certainty.segments == "auto" {
		o.Segments = nil // a shard does not have all sequences
	}
	if o.NewEngine, err = engineFor(a, o.Spec); err != nil {
		return err
	}
	if r.scale.shard != "" {
		return retrainShard(ctx, a, src, o, t.shard, r.out)
	}
	if err := t.search(ctx, a, src, &o); err != nil {
		return err
	}
	return t.retrain(ctx, a, src, o)
}

// searches reports whether settings are to be searched, and whether the user asked for the search.
func (t *training) searches() bool {
	r := t.flags
	return r.search > 0 && r.scale.shard == "" && r.hop == 0 && (t.novelty == nil || !t.novelty.HealthyOnly)
}

// chooseTask selects numbers, or healthy data alone, for data without two classes, unless the user asked for something.
func (t *training) chooseTask(ctx context.Context, a *cli.App, src *archives.Labeled, c *certaintyFlags) error {
	if c.target != "" || t.novelty != nil || t.early != nil || t.flags.labels != "" || t.flags.search == 0 || t.flags.scale.shard != "" {
		return nil
	}
	classes, target, err := src.Task(ctx)
	switch {
	case err != nil || len(classes) > 1:
		return err
	case target != "":
		a.Say("the data have no two classes, and numbers in the column %s: learning these, as with --target %s", names.Cut(target, 40), cli.QuoteForShell(target))
		c.target, c.randomOf = target, new(offline.RandomOptions) // --random-features needs --target
	case c.coverage == 0 && c.maxError == 0 && c.priors == "" && c.weights == "":
		a.Say("the data have no two classes: learning from healthy data alone, as with --healthy-only")
		t.novelty = &offline.NoveltyOptions{HealthyOnly: true}
	}
	return nil
}

// search chooses the settings that the user left open.
func (t *training) search(ctx context.Context, a *cli.App, src archives.Labeled, o *offline.RetrainOptions) (err error) {
	if !t.searches() {
		return nil
	}
	open := choose.Open{
		Policy: t.choose && o.Policy.Kind == reservoir.Window, Numbers: o.Target != "",
		Front: o.Front == (offline.Front{}) && len(o.Settings) == 0,
	}
	if open.Front = open.Front && (open.Policy || t.asked); open.Policy || open.Front {
		t.choices, err = searchSettings(ctx, a, src, o, open, choose.BudgetOf(t.flags.search.Seconds()), t.groups.rule != nil)
	}
	return notTrained(err, t.flags.out, o.Spec)
}

func engineFor(a *cli.App, s reservoir.Spec) (func(*reservoir.Network, int) (reservoir.Engine, error), error) {
	kind, slow, err := engines.Choose(a.Engine, s)
	if slow != "" {
		a.Say("note: %s", slow)
	}
	return engines.New(kind), err
}

// saveTrained saves a model after an error-free training.
func saveTrained(ctx context.Context, m *reservoir.Model, err error, out string, s reservoir.Spec) error {
	if err == nil {
		err = errors.Join(ctx.Err(), m.Save(out))
	}
	return notTrained(err, out, s)
}

// notTrained adds advice to an error: if memory is too small for the network, take a smaller bank.
func notTrained(err error, out string, s reservoir.Spec) error {
	if err == nil {
		return nil
	}
	next := "eusn-stream train --help"
	if errors.Is(err, fit.ErrMemory) {
		for _, name := range []string{"standard", "small", "tiny"} {
			if b, known := reservoir.Bank(name, 1); known == nil && 2*b.FeatureCount() <= s.FeatureCount() {
				next = "eusn-stream train DATA --bank " + name + ", or more --memory"
				break
			}
		}
	}
	return cli.Fail(cli.ExitFailure, cli.OrInterrupted(err, "%s is unchanged, or complete and new", out), next)
}

func (t *training) retrain(ctx context.Context, a *cli.App, src archives.Labeled, o offline.RetrainOptions) error {
	divided, parts, out := t.groups.parts, t.flags.group.parts, t.flags.out
	if divided != nil {
		a.Say("training on %d groups by %s; what the other %d have counts as without a label", len(divided.Train), divided.Rule, len(divided.Test))
	}
	o.Planned = func(r offline.RetrainReport) { SayPlanned(a, src, o.Policy, r) }
	p := a.Progress()
	m, report, err := src.Retrain(ctx, o, p.Report)
	p.Close()
	if err == nil {
		m.Training.Choices = t.choices
	}
	if err := saveTrained(ctx, m, err, out, o.Spec); err != nil {
		return err
	}
	if err := sayTrained(a, out, report); err != nil || a.JSON {
		return err
	}
	if report.Unlabeled > 0 && src.Set != nil {
		a.Say("note: %d training series have no label and were left out", report.Unlabeled)
	}
	if report.Empty > 0 {
		a.Say("warning: %d training %s have no values; the training treated them as constant", report.Empty, src.Words())
	}
	if len(report.Silent) > 0 {
		a.Say("warning: the training part of %s has no values; the model learned nothing from it", models.ListText(report.Silent))
	}
	other, next := cli.QuoteForShell(src.Path), ""
	switch {
	case parts != "":
		next = " --parts " + cli.QuoteForShell(parts)
	case src.Set == nil:
		other = "RECORDING" // another one: this one was learned from
	case len(src.Set.Part(archive.Test)) == 0:
		next = " --split train" // the only split
	}
	a.Say("next: eusn-stream evaluate %s --model %s%s", other, cli.QuoteForShell(out), next)
	return nil
}
