package loop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/engines"
	"github.com/eusn-stream/eusn-stream/internal/cli/server"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/datafile"
	"github.com/eusn-stream/eusn-stream/internal/labels"
	"github.com/eusn-stream/eusn-stream/internal/learn"
	"github.com/eusn-stream/eusn-stream/internal/offline/bridge"
	"github.com/eusn-stream/eusn-stream/internal/registry"
	"github.com/eusn-stream/eusn-stream/internal/replay"
	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// NewLearn is "learn".
func NewLearn(a *cli.App) *cobra.Command {
	var o learnOptions
	cmd := &cobra.Command{
		Use:   "learn --store DIR {--output NEW | --publish}",
		Short: "Learn a new readout from a job's labels and its log",
		Long: `Learn a new readout for the job's model from labels that came after the predictions.
It reads all labels of the job, finds the sequences that they are about in the job's
log, computes the features of these with the bits of the live stage, and fits a readout
as train does. The running job is not touched.

--store is a directory that keeps the features of labeled sequences: later runs read
the log only for what is new, and still know what the log has lost by then. It belongs
to one network; another readout may use it.

A label by times counts for each sequence whose samples all lie in its interval, one by
--seq and --row for the sequence of that prediction. Of what one person says, the last
word counts. If two people say different classes of a sequence, it is not learned from. A
label for which there is no sequence is listed with the reason, and looked for again
when there is new input.

--solve fits with what the store has, and does not read the log. --exclude learns without
a part: stream=PATTERN (* and ? are wildcards), who=NAME, or FROM..TO; it may be given
several times, and nothing in the store changes. --leave-out stream tests each stream with
a readout that has learned from the others only; with a regular expression, what its first
group matches is the site.

--publish stores the new model in the job's registry, with where it comes from: labels,
messages, leave-one-out figures, this command, and the model that it was made from. The
job's predictions do not change: that is eusn-stream model promote. Where the readout is
the same as before, nothing is published. --shadow has it score beside the one that
predicts (eusn-stream model shadow), in place of the one that learn set before.

--sums gives up most features for their sums, which do not grow with the number of
sequences: in groups of a site, and of the people who have said what they are, where that
is smaller. --keep-features sequences keep their features. Whole groups can be left out afterwards;
for a part of one, its features must still be in the log.

--adaptive has the labels move the thresholds of the sets, in the order in which they came:
where the data change, the share of sets without the true class stays as stated.

--follow continues: it reads labels and log every --interval, and fits when --after more labels
have come. After Ctrl-C or a kill the same command continues where it was.`,
		Example: `  eusn-stream learn --model machine.safetensors --store learned --output new.safetensors
  eusn-stream learn --model machine.safetensors --store learned --output trial.safetensors --solve --exclude who=anna --exclude 'stream=hall2-*'
  eusn-stream learn --model machine.safetensors --store learned --output new.safetensors --leave-out '^(hall[0-9]+)-'
  eusn-stream learn --model machine.safetensors --store learned --output new.safetensors --follow --interval 1h --after 100
  eusn-stream learn --model machine.safetensors --store learned --publish --shadow --follow`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	o.addFlags(f)
	config.ShowDefaults(f, learnFlags)
	cobra.CheckErr(cmd.MarkFlagRequired("store"))
	cmd.MarkFlagsOneRequired("output", "publish")
	cmd.MarkFlagsMutuallyExclusive("solve", "whole")
	cmd.MarkFlagsMutuallyExclusive("solve", "follow")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		l := &learning{app: a, opt: o}
		if err := l.parseFlags(); err != nil {
			return err
		}
		if err := o.checkOptions(f); err != nil {
			return err
		}
		return a.Do(func(ctx context.Context, _ []string) (err error) {
			if l.conf, err = server.StageConfig(a, o.file, f, learnFlags); err != nil {
				return err
			}
			if o.publish {
				l.command = commandOf(cmd)
				if l.opt.who, err = whoOr(o.who); err != nil {
					return err
				}
			}
			return l.runLearn(ctx, cmd.CommandPath())
		})(cmd, args)
	}
	return cmd
}

// learning is learn at work.
type learning struct {
	app     *cli.App
	conf    config.Config
	opt     learnOptions
	without *learn.Exclusion
	site    func(stream string) string // nil: no sites are left out
	sumsOf  func(stream string) string // the site whose features are summed; nil: none
	weights offline.PerClass
	model   *reservoir.Model
	store   *learn.Store
	job     *pipeline.Job
	js      jetstream.JetStream
	command string // with --publish: as typed
}

func (l *learning) runLearn(ctx context.Context, command string) error {
	var err error
	if l.opt.out != "" {
		if err := cli.OutputFile(l.opt.out, l.conf.Model); err != nil {
			return err
		}
	}
	if l.store, err = learn.Open(l.opt.store); err != nil {
		return l.learnFailure(err)
	}
	defer l.store.Close()
	log := l.app.Logger(l.conf.Log.Level, l.conf.Log.Format)
	b, err := server.OpenJob(ctx, l.app, l.conf, server.Need{Stage: l.opt.follow}, log)
	if err != nil {
		return err
	}
	defer b.Close()
	ctx = b.EndOnRefusal(ctx)
	nc, js, err := b.Open(ctx, "eusn-stream/"+l.conf.Job+"/learn")
	if err != nil {
		return err
	}
	defer nc.Close()
	l.js = js
	if err = l.loadModel(ctx); errors.Is(err, admin.ErrNoJob) {
		return server.NoJob(ctx, b, err, command)
	} else if err != nil {
		return err
	}
	if l.job, err = l.newJob(b, log); err != nil {
		return err
	}
	if err = labels.Exists(ctx, l.js, l.conf.Job); err == nil && l.opt.publish {
		_, err = registry.Make(ctx, l.js, l.conf.Job) // before the work: it may be forbidden
	}
	if err == nil {
		err = l.runRounds(ctx)
	}
	if errors.Is(err, admin.ErrNoJob) {
		return server.NoJob(ctx, b, err, command)
	}
	return l.learnFailure(b.ExplainRefusal(err))
}

// loadModel loads the model whose readout is trained.
func (l *learning) loadModel(ctx context.Context) (err error) {
	if l.model, l.conf.Model, err = server.JobModel(ctx, l.app, l.js, l.conf); err != nil {
		return err
	}
	if err = bridge.CheckNetwork(l.model); err != nil {
		return cli.Fail(cli.ExitFailure, err, "eusn-stream train DATA --segments none")
	}
	if l.sumsOf != nil {
		err = cli.Fail(cli.ExitUsage, bridge.CheckSums(l.model), "the same command without --sums")
	}
	return err
}

// newJob makes the job that computes the features, like a worker.
func (l *learning) newJob(b *server.Broker, log *slog.Logger) (*pipeline.Job, error) {
	engine, slow, err := engines.Choose(l.conf.Stage.Engine, l.model.Network.Spec)
	if err != nil {
		return nil, err
	}
	if slow != "" {
		l.app.Say("note: %s", slow)
	}
	return &pipeline.Job{
		Config: server.PipelineConfig(l.conf), Model: l.model, ModelName: filepath.Base(l.conf.Model), NewEngine: engines.New(engine), Log: log,
		Dial: func(ctx context.Context, name string) (*nats.Conn, error) {
			return b.Dial(ctx, "eusn-stream/"+l.conf.Job+"/"+name)
		},
	}, nil
}

// readLog looks for labeled sequences in the log.
func (l *learning) readLog(ctx context.Context, book *learn.Book) error {
	p := l.app.Progress()
	defer p.Close()
	had := l.store.Len()
	pass := learn.Pass{
		Job: l.job, Whole: l.opt.whole, JS: l.js,
		Carried: func(n int) {
			l.app.Say("features of %d sequences came with their predictions (output.features_one_in)", n)
		},
		Begun: func(log replay.FeaturesLog) {
			if !log.JobNetwork {
				l.app.Say("warning: job %s runs another network than %s (or another front end, policy or channels): labels of predictions may be about no sequence of this one", l.conf.Job, l.conf.Model)
			}
			if log.First > 1 && (l.model.Policy.Kind == reservoir.Window || l.model.Policy.Kind == reservoir.Count) {
				l.app.Say("note: the log begins with message %d: windows and counts may lie at other places than the job's, so that labels of predictions find none", log.First)
			}
		},
		Progress: func(d replay.FeaturesDone) {
			p.Report(int64(d.Messages), int64(d.Last+1-d.First), "messages read")
		},
	}
	done, err := pass.Run(ctx, l.store, book)
	p.Close()
	if err != nil {
		return err
	}
	if done.Messages == 0 {
		l.app.Say("no label needs the log: nothing of it is read")
		return nil
	}
	l.app.Say("read messages %d to %d of the log: features of %d more sequences", done.First, done.Last, l.store.Len()-had)
	if done.Unusable > 0 {
		l.app.Say("warning: %d messages could not be used, the first because: %s", done.Unusable, done.Reason)
	}
	return nil
}

// fitOptions returns the options of a new readout with the functions of the current
// readout.
func (l *learning) fitOptions() (o offline.RetrainOptions, err error) {
	linear, err := l.job.Readout()
	if err != nil {
		return o, err
	}
	o = offline.RetrainOptions{Readout: linear.Name, Tool: cli.ToolName(), Weights: l.weights}
	if c := linear.Coverage; c != nil {
		if o.Coverage = c.Level; c.ByClass {
			o.CoverageByClass = true
		}
	}
	if l.opt.adaptive != 0 && linear.Coverage == nil {
		return o, cli.Fail(cli.ExitUsage, fmt.Errorf("--adaptive: readout %q of %s makes no sets of classes", linear.Name, l.conf.Model), "eusn-stream train --coverage 0.95, and promote that; or learn without --adaptive")
	}
	if r := linear.Abstain; r != nil {
		o.MaxError, o.Confidence = r.MaxError, r.Confidence
	}
	return o, nil
}

// fitReadout learns a readout, and writes the model.
func (l *learning) fitReadout(ctx context.Context, book *learn.Book, j learn.JoinResult) error {
	linear, err := l.job.Readout()
	if err != nil {
		return err
	}
	k := l.known(book, j)
	for _, class := range linear.Classes {
		if j.Report.Classes[class] == 0 {
			l.app.Say("warning: no labeled sequence is of class %q: the new readout does not know it", class)
		}
	}
	l.sayLost(linear.Novelty != nil, linear.Novelty.InputValues() > 0, linear.Prefixes != nil)
	p := l.app.Progress()
	defer p.Close()
	o, err := l.fitOptions()
	if err != nil {
		return err
	}
	m, report, err := l.relearn(ctx, k, j.Examples, o, p.Report)
	p.Close()
	if err == nil {
		err = ctx.Err()
	}
	if err == nil && l.opt.out != "" {
		err = m.Save(l.opt.out)
	}
	if err != nil {
		return err
	}
	f := fitted{model: m, report: &report}
	if f.sites, err = l.testSites(ctx, k, j, o); err != nil {
		return err
	}
	if l.opt.publish {
		if f.entry, err = l.publishModel(ctx, j, f); err != nil {
			return err
		}
	}
	return l.printResult(j, &f)
}

// sayLost warns of functions of the current readout that a readout from labels lacks.
func (l *learning) sayLost(novelty, inputs, early bool) {
	const what = "warning: the previous readout %s, and the new one does not: after its promotion, %s; train with train %s and publish that model instead"
	switch {
	case inputs:
		l.app.Say(what, "computes novelty and the distribution of the inputs", "predictions have neither, and alarm rules about novelty or drift of inputs are silent", "--drift")
	case novelty:
		l.app.Say(what, "computes novelty", "predictions have no novelty, and alarm rules about it are silent", "--novelty")
	}
	if early {
		l.app.Say(what, "decides early", "none is decided early", "--early N --decide")
	}
}

// fitted is the result of training.
type fitted struct {
	model  *reservoir.Model
	report *offline.RetrainReport
	sites  []siteResult
	entry  *publishedModel // nil: without --publish
}

// learnFailure adds the next step to an error.
func (l *learning) learnFailure(err error) error {
	store := cli.QuoteForShell(l.opt.store)
	out := "the registry"
	if l.opt.out != "" {
		out = l.opt.out
	}
	err = cli.OrInterrupted(err, "%s is unchanged, or complete and new; the same command continues with %s", out, l.opt.store)
	switch {
	case errors.Is(err, learn.ErrGone):
		return cli.Fail(cli.ExitFailure, err, "the same command without --solve, which computes them again if the log has them; or --exclude for a whole group, such as --exclude who=NAME")
	case isRegistry(err):
		return registryFailure(err)
	case errors.Is(err, learn.ErrDamaged):
		return cli.Fail(cli.ExitFailure, datafile.InContent(err), "remove the file that the message names, then the same command with --whole; or another --store than "+store)
	case errors.Is(err, learn.ErrInUse):
		return cli.Fail(cli.ExitFailure, err, "wait for its end, or another --store")
	case errors.Is(err, learn.ErrOther):
		return cli.Fail(cli.ExitFailure, err, "another --store than "+store+", or the model and the job that it is of")
	}
	return cli.Fail(cli.ExitFailure, err, "eusn-stream labels list, which shows the labels that count; eusn-stream learn --help")
}
