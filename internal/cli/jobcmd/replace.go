package jobcmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/engines"
	"github.com/eusn-stream/eusn-stream/internal/cli/server"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/operate"
	"github.com/eusn-stream/eusn-stream/internal/registry"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// replaceFlags are the flags of job replace that override keys of the configuration.
var replaceFlags = []string{"job", "nats-url", "dir", "non-finite"}

type replaceOptions struct {
	with            string
	dryRun, abandon bool
}

func newReplace(a *cli.App) *cobra.Command {
	var o replaceOptions
	var file string
	cmd := &cobra.Command{
		Use:   "replace --with JOB",
		Short: "Let a job continue with the network and states of another one on its input",
		Long: `Let a job continue with the network and the states of a second job that reads its
input (run --job green --input-job eusn). Readers of the first job's predictions see
the same subjects, and from one message of the input on, the cut, another model. Each
prediction is made once: by the old network up to the cut, by the new one after it.
Sequences that are open at the cut continue in the second job's states, which have seen
them from their beginning.

Let the second job catch up first ("eusn-stream status --partitions --job green"), look with
--dry-run, and stop the workers of both jobs. Producers may continue: what they send is
predicted afterwards. Models come from the jobs' registries; -c is the configuration of
the stage. Then start the job's workers with the second job's model. The second job
does not change, and may be deleted or continue.

Ctrl-C, a crash or a lost server do no harm: run the same command again, and it
continues. --abandon undoes the change, until the new states are published.`,
		Example: `  eusn-stream job replace --with green --dry-run --nats-url nats://host:4222
  eusn-stream job replace --with green -c stage.yaml --nats-url nats://host:4222
  eusn-stream job replace --abandon --nats-url nats://host:4222`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVarP(&file, "config", "c", "", "configuration file of the stage")
	f.StringVar(&o.with, "with", "", "the second job")
	f.BoolVar(&o.dryRun, "dry-run", false, "only print what would be done")
	f.BoolVar(&o.abandon, "abandon", false, "return to what was, if that is still possible")
	f.String("non-finite", "", "how the stage treats nulls, NaN and infinities: reject, hold or zero")
	server.AddJobFlags(f)
	config.ShowDefaults(f, replaceFlags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case o.abandon && (o.dryRun || f.Changed("with")):
			return errors.New("--abandon goes alone: without --with and --dry-run")
		case !o.abandon && o.with == "":
			return errors.New("--with is missing: the job whose network and states the job is to have; or --abandon")
		}
		return a.Do(func(ctx context.Context, _ []string) error {
			c, err := server.StageConfig(a, file, f, replaceFlags)
			if err != nil {
				return err
			}
			return replace(ctx, a, c, o)
		})(cmd, args)
	}
	return cmd
}

func replace(ctx context.Context, a *cli.App, c config.Config, o replaceOptions) error {
	b, err := server.OpenJob(ctx, a, c, server.Need{}, a.Logger("warn", c.Log.Format))
	if err != nil {
		return err
	}
	defer b.Close()
	ctx = b.EndOnRefusal(ctx)
	failure := func(err error) error {
		if errors.Is(err, admin.ErrNoJob) {
			return server.NoJob(ctx, b, err, "eusn-stream job replace, with the same flags and")
		}
		return replaceFailure(b.ExplainRefusal(server.AddAdvice(err)), o)
	}
	base := &pipeline.Job{Config: server.PipelineConfig(c), Dial: b.Dial, Log: a.Logger(c.Log.Level, c.Log.Format)}
	if o.abandon {
		if err := operate.Abandon(ctx, base, nil); err != nil {
			return failure(err)
		}
		a.Print("job %s is as it was", c.Job)
		return nil
	}
	own, err := findJob(ctx, base, c, c.Job)
	if err != nil {
		return failure(err)
	}
	other, err := findJob(ctx, base, c, o.with)
	if err != nil {
		return failure(err)
	}
	if o.dryRun {
		return failure(planReplace(ctx, a, b, own, other))
	}
	step := ""
	p := a.Progress()
	now, err := operate.Replace(ctx, own, operate.ReplaceOptions{With: other, Progress: func(is string, done, all int) {
		if is != step {
			step = is
			a.Say("%s", replaceSteps[is])
		}
		p.Report(int64(done), int64(all), "partitions")
	}})
	p.Close()
	if err != nil {
		return failure(cli.OrInterrupted(err, "nothing is lost; the same command continues from here"))
	}
	if a.JSON {
		return a.PrintJSON(now)
	}
	if now.Cut > 0 {
		a.Print("job %s has the network and states of job %s: up to input message %d, the previous network has predicted", now.Job, now.With, now.Cut)
	} else {
		a.Print("job %s has the network of job %s", now.Job, now.With)
	}
	a.Say("start the workers of job %s with the model of job %s", now.Job, now.With)
	return nil
}

// findJob returns a job, with its model and engine.
func findJob(ctx context.Context, base *pipeline.Job, c config.Config, job string) (*pipeline.Job, error) {
	of, err := operate.FindJob(ctx, base, job)
	if err != nil {
		return nil, err
	}
	engine, _, err := engines.Choose(c.Stage.Engine, of.Model.Network.Spec)
	if err != nil {
		return nil, err
	}
	of.NewEngine, _ = engines.ForStage(engine, of.Config.WithDefaults().MaxSlots, of.Log)
	return of, nil
}

var replaceSteps = map[string]string{
	"replace-claim":   "taking the partitions from all workers",
	"replace-drain":   "predicting the stored input, with the previous network and with the new network",
	"replace-store":   "storing the other job's states as this job's, and comparing digests",
	"replace-publish": "starting the partitions with them",
}

// replacePlan is the plan of a replacement.
type replacePlan struct {
	operate.Replaced
	Messages      uint64 `json:"messages"`       // stored messages that the job has not answered
	OtherMessages uint64 `json:"other_messages"` // stored messages that the other job has not answered
	Bytes         uint64 `json:"bytes"`          // of the other job's snapshots
}

func planReplace(ctx context.Context, a *cli.App, b *server.Broker, own, other *pipeline.Job) error {
	now, err := operate.CheckReplace(ctx, own, other)
	if err != nil {
		return err
	}
	nc, js, err := b.Open(ctx, "eusn-stream/"+now.Job+"/replace")
	if err != nil {
		return err
	}
	defer nc.Close()
	plan := replacePlan{Replaced: now}
	if plan.Messages, _, err = waiting(ctx, js, now.Job); err != nil {
		return err
	}
	if plan.OtherMessages, plan.Bytes, err = waiting(ctx, js, now.With); err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(plan)
	}
	if now.Step != "" {
		a.Print("job %s: this is under way, step %s; run the command without --dry-run to complete it", now.Job, now.Step)
		return nil
	}
	a.Print("job %s would continue with the network and states of job %s; nothing was changed", now.Job, now.With)
	a.Print("%d stored messages have no answer of job %s yet, %d none of job %s: they would be answered first, at the speed of the stage", plan.Messages, now.Job, plan.OtherMessages, now.With)
	a.Print("%.1f MB of states would be stored once more and compared", float64(plan.Bytes)/1e6)
	return nil
}

// waiting returns how many messages a job has not answered, and the size of its
// snapshots in bytes.
func waiting(ctx context.Context, js jetstream.JetStream, job string) (messages, bytes uint64, err error) {
	j, err := admin.Open(ctx, js, job)
	if err != nil {
		return 0, 0, err
	}
	for p := range j.NumPartitions() {
		s, err := j.Status(ctx, p)
		if err != nil {
			return 0, 0, err
		}
		messages, bytes = messages+s.Lag, bytes+s.SnapshotBytes
	}
	return messages, bytes, nil
}

// replaceFailure adds the next step to an error.
func replaceFailure(err error, o replaceOptions) error {
	next := fmt.Sprintf("the same command: it resumes at the interrupted step (eusn-stream job replace --with %s --dry-run, which prints the step)", cli.QuoteForShell(o.with))
	if o.abandon || o.dryRun {
		next = "the same command, when the server answers: eusn-stream doctor"
	}
	code := cli.ExitFailure
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pipeline.ErrOtherModel):
		code, next = cli.ExitOtherModel, "the same command with the configuration of the stage (-c)"
	case errors.Is(err, operate.ErrUnfit), errors.Is(err, operate.ErrShared):
		next = "docs/second-job.md, Another network on the same output"
	case errors.Is(err, operate.ErrNotBegun), errors.Is(err, registry.ErrNone), errors.Is(err, registry.ErrNoEntry):
		next = "start a worker of each of the two jobs once: it stores the job's model in its registry"
	case errors.Is(err, operate.ErrWorkers):
		next = "stop the workers of both jobs (Ctrl-C or SIGTERM), then the same command"
	case errors.Is(err, operate.ErrPastCut):
		next = "eusn-stream job replace --with JOB, the second job, which completes it; then the same with the previous network, from a job that reads this input"
	}
	return cli.Fail(code, err, next)
}
