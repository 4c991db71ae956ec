package jobcmd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/engines"
	"github.com/eusn-stream/eusn-stream/internal/cli/server"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/operate"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// resizeFlags are the flags of job resize that override keys of the configuration.
var resizeFlags = []string{"model", "job", "nats-url", "dir", "non-finite"}

// statesPerSecond is a low estimate of a server's throughput for storing and reading
// states, bytes: 95 to 270 MB/s were measured for each.
const statesPerSecond = 30e6

// NewJob returns "job" and its subcommands.
func NewJob(a *cli.App, more ...*cobra.Command) *cobra.Command {
	return cli.Group("job", "List jobs, and change one as a whole: its partitions, its network, its stored input", append(more, newJobList(a), newJobStreams(a), NewStatus(a), newResize(a), newReplace(a), newTrim(a), newJobDelete(a))...)
}

type resizeOptions struct {
	to              int
	dryRun, abandon bool
}

func newResize(a *cli.App) *cobra.Command {
	var o resizeOptions
	var file string
	cmd := &cobra.Command{
		Use:   "resize PARTITIONS | --abandon",
		Short: "Change the number of a job's partitions",
		Long: `Change the number of a job's partitions, up or down, for more workers or less work
of the server. Stop the workers first. Producers may continue: nothing of theirs is
refused or lost, and what they send is predicted afterwards. The states of all
streams are kept, and their digests compared before and after.

The command needs the model and the configuration of the stage, because it answers
what was stored before the change. Look first with --dry-run, which changes nothing.

Ctrl-C, a crash or a lost server do no harm: the same command continues from where it
was. Until the server gives keys to the new partitions, --abandon returns to the
previous number; after that, complete the change, and then change back.`,
		Example: `  eusn-stream job resize 64 --model m.safetensors --dry-run
  eusn-stream job resize 64 --model m.safetensors --nats-url nats://host:4222
  eusn-stream job resize --abandon --dir eusn-data`,
		Args: cobra.MaximumNArgs(1),
	}
	f := cmd.Flags()
	f.StringVarP(&file, "config", "c", "", "configuration file of the stage")
	f.BoolVar(&o.dryRun, "dry-run", false, "only print what would be done")
	f.BoolVar(&o.abandon, "abandon", false, "return to the previous number, if that is still possible")
	f.StringP("model", "m", "", "model file of the stage (default the job's model, of its registry)")
	server.AddJobFlags(f)
	f.String("non-finite", "", "how the stage treats nulls, NaN and infinities: reject, hold or zero")
	config.ShowDefaults(f, resizeFlags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case o.abandon && (o.dryRun || len(args) > 0):
			return errors.New("--abandon takes neither PARTITIONS nor --dry-run")
		case !o.abandon && len(args) == 0:
			return fmt.Errorf("PARTITIONS is missing: the number of partitions that the job is to have, 1 to %d; or --abandon", store.MaxPartitions)
		}
		if !o.abandon {
			var err error
			if o.to, err = strconv.Atoi(args[0]); err != nil || o.to < 1 || o.to > store.MaxPartitions {
				return fmt.Errorf("%s partitions: want a number of 1 to %d", args[0], store.MaxPartitions)
			}
		}
		return a.Do(func(ctx context.Context, _ []string) error {
			c, err := server.StageConfig(a, file, f, resizeFlags)
			if err != nil {
				return err
			}
			return resize(ctx, a, c, o)
		})(cmd, args)
	}
	return cmd
}

func resize(ctx context.Context, a *cli.App, c config.Config, o resizeOptions) error {
	b, err := server.OpenJob(ctx, a, c, server.Need{}, a.Logger("warn", c.Log.Format))
	if err != nil {
		return err
	}
	defer b.Close()
	ctx = b.EndOnRefusal(ctx)
	job := &pipeline.Job{Config: server.PipelineConfig(c), Dial: b.Dial, Log: a.Logger(c.Log.Level, c.Log.Format)}
	failure := func(err error) error {
		if errors.Is(err, admin.ErrNoJob) {
			return server.NoJob(ctx, b, err, "eusn-stream job resize, with the same flags and")
		}
		return resizeFailure(b.ExplainRefusal(server.AddAdvice(err)), o)
	}
	switch {
	case o.abandon:
		if err := operate.Abandon(ctx, job, nil); err != nil {
			return failure(err)
		}
		now, err := operate.Resizing(ctx, job)
		if err != nil {
			return failure(err)
		}
		return printResized(a, now)
	case o.dryRun:
		return failure(planResize(ctx, a, job, b, o.to))
	}
	if job.Model, _, err = b.JobModel(ctx, a, c); err != nil {
		return failure(err)
	}
	engine, _, err := engines.Choose(c.Stage.Engine, job.Model.Network.Spec)
	if err != nil {
		return err
	}
	job.NewEngine, _ = engines.ForStage(engine, job.Config.WithDefaults().MaxSlots, job.Log)
	step := ""
	p := a.Progress()
	now, err := operate.Resize(ctx, job, operate.ResizeOptions{To: o.to, Progress: func(is string, done, all int) {
		if is != step {
			step = is
			a.Say("%s", resizeSteps[is])
		}
		p.Report(int64(done), int64(all), resizeUnits[is])
	}})
	p.Close()
	if err != nil {
		return failure(cli.OrInterrupted(err, "nothing is lost; the same command continues from here"))
	}
	return printResized(a, now)
}

// The description of each step, as in pipeline's documentation.
var (
	resizeSteps = map[string]string{
		"claim":   "taking the partitions from all workers",
		"switch":  "giving the server the new number, and finding the first message that follows it",
		"drain":   "the server uses the new partitions; answering what was stored before",
		"store":   "giving every stream's state to its new partition, and comparing digests",
		"publish": "starting the new partitions",
	}
	resizeUnits = map[string]string{"claim": "partitions taken", "switch": "messages looked at", "drain": "partitions answered", "store": "parts stored", "publish": "partitions started"}
)

// resizePlan is the plan of a change.
type resizePlan struct {
	operate.Resized
	Asked    int    `json:"asked"`
	Messages uint64 `json:"messages"` // stored, without an answer yet
	Bytes    uint64 `json:"bytes"`    // of snapshots
	Seconds  int    `json:"seconds"`  // only for the states
}

func planResize(ctx context.Context, a *cli.App, job *pipeline.Job, b *server.Broker, to int) error {
	now, err := operate.Resizing(ctx, job)
	if err != nil {
		return err
	}
	plan := resizePlan{Resized: now, Asked: to}
	nc, js, err := b.Open(ctx, "eusn-stream/"+now.Job+"/resize")
	if err != nil {
		return err
	}
	defer nc.Close()
	if plan.Messages, plan.Bytes, err = waiting(ctx, js, now.Job); err != nil {
		return err
	}
	plan.Seconds = int(float64(plan.Bytes)/statesPerSecond) + 1
	if a.JSON {
		return a.PrintJSON(plan)
	}
	if now.With != "" {
		a.Print("job %s: it is being given the network and states of job %s, step %s; complete that with eusn-stream job replace --with %s, or --abandon", now.Job, now.With, now.Step, now.With)
		return nil
	}
	if now.Step == operate.StepAbandon {
		a.Print("job %s: a change from %d to %d partitions is being abandoned; complete that with --abandon", now.Job, now.Partitions, now.To)
		return nil
	}
	if now.Step != "" {
		a.Print("job %s: a change from %d to %d partitions is under way, step %s; run the command with %d partitions to complete it", now.Job, now.Partitions, now.To, now.Step, now.To)
		return nil
	}
	if now.Partitions == to {
		a.Print("job %s has %d partitions: nothing to do", now.Job, to)
		return nil
	}
	a.Print("job %s: %d partitions now, %d then; nothing was changed", now.Job, now.Partitions, to)
	a.Print("%d stored messages have no answer yet and would be answered first, at the speed of the stage", plan.Messages)
	a.Print("%.1f MB of states would be stored once more and compared: about %v", float64(plan.Bytes)/1e6, time.Duration(plan.Seconds)*time.Second)
	return nil
}

func printResized(a *cli.App, now operate.Resized) error {
	if a.JSON {
		return a.PrintJSON(now)
	}
	a.Print("job %s has %d partitions", now.Job, now.Partitions)
	a.Say("start the stage without stage.partitions, or with stage.partitions: %d", now.Partitions)
	return nil
}

// resizeFailure adds the next step to an error.
func resizeFailure(err error, o resizeOptions) error {
	again := fmt.Sprintf("the same command: it resumes at the interrupted step (eusn-stream job resize %d --dry-run, which prints the step)", o.to)
	if o.abandon || o.dryRun {
		again = "the same command, when the server answers: eusn-stream doctor"
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pipeline.ErrOtherModel):
		return cli.Fail(cli.ExitOtherModel, err, "the same command with --model and the job's model file, and the stage's configuration")
	case operate.IsWrongState(err):
		return cli.Fail(cli.ExitFailure, err, "the same command with the configuration that the workers had (-c), or with --non-finite as they had it")
	case errors.Is(err, operate.ErrShared):
		return cli.Fail(cli.ExitFailure, err, "eusn-stream doctor, which lists the jobs that read an input")
	case errors.Is(err, operate.ErrWorkers):
		return cli.Fail(cli.ExitFailure, err, "stop the workers (Ctrl-C or SIGTERM), then the same command")
	case errors.Is(err, operate.ErrPastCut):
		return cli.Fail(cli.ExitFailure, err, "the same command with the number of that change, then with the previous number")
	}
	return cli.Fail(cli.ExitFailure, err, again)
}
