package offlinecmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/archives"
	"github.com/eusn-stream/eusn-stream/internal/cli/engines"
	"github.com/eusn-stream/eusn-stream/internal/cli/models"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/readout"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

func newRetrain(a *cli.App) *cobra.Command {
	var net networkFlags
	var pol PolicyFlags
	var scale scaleFlags
	var archive, labels, out, readoutName string
	var group groupFlags
	var rate rateFlag
	var front frontFlag
	var certainty certaintyFlags
	var novel noveltyFlags
	var decide DecideFlags
	var threads int
	cmd := &cobra.Command{
		Use:   "retrain [--merge FILE...]",
		Short: "Train a model on the training part of an archive, or on a recording",
		Long: `Draw a reservoir from its seed, run every training series through it, and fit a
linear classifier to its features. --policy cuts series into
sequences, as the live stage will cut streams; leave-one-out leaves out whole series.
--group leaves out all of a machine, a person or a day at once: it is for data in which
these come again, and shows what a new one can expect.
A recording has no test part: the training uses all of it. The label of a sequence is
the one that all its samples have; a sequence with several labels is not used.

--target learns a number instead of a class: ridge regression, with an interval for each
prediction.

The default is a bank of 120 networks of 16 units (--bank standard). Leave-one-out chooses
between ridge classifier and linear discriminant, and the regularisation. --network eusn,
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
to n/n, each with its own --out, then --merge. Each job reads the whole archive,
because all series together determine the scale of the input. If there are more
sequences than features, each also runs all of them through the network (but for euler),
because all together determine the limits of the features. The model equals that
of a single job; if there are more sequences than features, it can differ in the last
bits. The same shards always give the same bits.`,
		Example: `  eusn-stream offline retrain --archive Adiac.parquet --out adiac.safetensors
  eusn-stream offline retrain --archive recording.parquet --policy window --length 256 --hop 64 --out plant.safetensors
  eusn-stream offline retrain --archive recorded/ --labels labels.csv --out plant.safetensors
  eusn-stream offline retrain --archive recorded/ --labels labels.csv --group '^(hall[0-9]+)-' --out plant.safetensors
  eusn-stream offline retrain --archive Adiac.parquet --coverage 0.95 --out adiac.safetensors
  eusn-stream offline retrain --archive Adiac.parquet --max-error 0.02 --out adiac.safetensors
  eusn-stream offline retrain --archive wear.parquet --target remaining --coverage 0.9 --out wear.safetensors
  eusn-stream offline retrain --archive Adiac.parquet --units 200 --eps 0.01 --gamma 0.001 --out paper.safetensors
  eusn-stream offline retrain --archive Adiac.parquet --bank small --out adiac.safetensors
  eusn-stream offline retrain --archive big.parquet --shard 3/8 --out part3.stats
  eusn-stream offline retrain --merge part*.stats --out big.safetensors`,
		Args: cobra.ArbitraryArgs, // scaleFlags.check knows more
	}
	f := cmd.Flags()
	f.StringVar(&archive, "archive", "", "Parquet archive, as written by import: a data set, or a recording with labels; or the folder of eusn-stream record, or a pattern of its files")
	f.StringVar(&labels, "labels", "", "what the samples of a recording were, instead of its column label: CSV with stream,from,to,label, or what labels export or labels list --json prints")
	group.add(f, "; leave-one-out then leaves out whole groups")
	f.StringVarP(&out, "out", "o", "model.safetensors", "model file to write; replaces an older one when the training is complete")
	f.StringVar(&readoutName, "readout", "", "name of the trained readout (default \"default\")")
	f.Var(&rate, "rate", "sampling rate of the data, such as 100Hz or 25.6kHz (default: that of the samples' times, where a recording has them)")
	f.Var(&front, "front", "front end of the model, such as envelope=10ms,decimate=20: parts of centre, normalise, envelope, decimate, with lengths in samples or time")
	f.IntVar(&threads, "threads", 0, "cores to use; 0 = all. The result does not depend on it")
	net.add(f)
	pol.Add(f)
	certainty.add(f)
	scale.add(f)
	novel.add(f)
	decide.Add(f)
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
		if err := errors.Join(err, net.check(f), certainty.check(f)); err != nil {
			return err
		}
		if threads < 0 {
			return fmt.Errorf("--threads %d: want 0 or more", threads)
		}
		if out == "" {
			return errors.New("--out: want the name of a file")
		}
		if certainty.target != "" && (scale.shard != "" || scale.merge) {
			return errors.New("--target, and --shard or --merge: files of statistics do not hold numbers: train in one job")
		}
		if certainty.target != "" && labels != "" {
			return errors.New("--target and --labels: numbers come from a column of the archive: leave --labels out")
		}
		if scale.shard != "" && (certainty.coverage != 0 || certainty.maxError != 0 || certainty.priors != "" || certainty.weights != "") {
			return errors.New("--coverage, --max-error, --priors or --class-weights, and --shard: files of statistics do not hold them: train in one job")
		}
		detector, err := novel.options(f)
		if err != nil {
			return err
		}
		if detector != nil && (scale.shard != "" || scale.merge) {
			return errors.New("--novelty or --healthy-only, and --shard or --merge: a detector is learnt from all sequences at once: train in one job")
		}
		early, err := decide.Options(f)
		if err != nil {
			return err
		}
		if early != nil && (scale.shard != "" || scale.merge) {
			return errors.New("--decide, and --shard or --merge: when a prefix suffices is learnt from all sequences at once: train in one job")
		}
		rule, parts, err := group.read()
		if err != nil {
			return err
		}
		if rule != nil && scale.shard != "" {
			return errors.New("--group or --parts, and --shard: a group has sequences in several shards, and must be left out of all at once: train in one job")
		}
		return a.Do(func(ctx context.Context, files []string) error {
			keepWithin(budget)
			if err := cli.OutputFile(out, append(files, archive, labels, group.parts)...); err != nil {
				return err
			}
			if scale.merge {
				return mergeShards(ctx, a, files, offline.RetrainOptions{Budget: offline.Budget{Memory: budget}}, out)
			}
			src, err := openGrouped(archive, labels, rule)
			if err == nil {
				err = src.ReadTarget(certainty.target)
			}
			if err != nil {
				return err
			}
			o := net.options(src.Channels)
			o.Policy, o.Readout, o.Threads, o.Memory, o.Rate, o.Front = policy, readoutName, threads, budget, float64(rate), offline.Front(front)
			o.Groups, o.Parts, o.Novelty, o.Early = rule, parts, detector, early
			certainty.set(&o)
			if o.NewEngine, err = engineFor(a, o.Spec); err != nil {
				return err
			}
			if scale.shard != "" {
				return retrainShard(ctx, a, src, o, shard, out)
			}
			return retrain(ctx, a, src, o, group.parts, out)
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

func retrain(ctx context.Context, a *cli.App, src archives.Labelled, o offline.RetrainOptions, parts, out string) error {
	if o.Parts != nil {
		a.Say("training on %d groups by %s; what the other %d have counts as without a label", len(o.Parts.Train), o.Parts.Rule, len(o.Parts.Test))
	}
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
	case parts != "":
		next = " --parts " + cli.QuoteForShell(parts)
	case src.Set == nil:
		other = "RECORDING" // another one: this one was learnt from
	case len(src.Set.Part(offline.Test)) == 0:
		next = " --split train" // there is no other
	}
	a.Say("next: eusn-stream offline evaluate --model %s --archive %s%s", cli.QuoteForShell(out), other, next)
	return nil
}
