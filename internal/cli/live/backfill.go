package live

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/engines"
	"github.com/eusn-stream/eusn-stream/internal/cli/models"
	"github.com/eusn-stream/eusn-stream/internal/cli/server"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/replay"
	"github.com/eusn-stream/eusn-stream/offline/archive"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// backfillFlags are the flags of job backfill that override keys of the configuration;
// predictFlags those of predict.
var (
	backfillFlags = []string{"model", "nats-url", "dir", "job"}
	predictFlags  = backfillFlags[:1]
)

const backfillHelp = "eusn-stream job backfill --help"

// backfillOptions are the options of predict and of job backfill.
type backfillOptions struct {
	since, until, leadIn string
	out                  string
	split                string
	limit                float64

	files []string // empty: the log
}

// NewPredict makes the command "predict".
func NewPredict(a *cli.App) *cobra.Command {
	var o backfillOptions
	cmd := &cobra.Command{
		Use:   "predict FILES",
		Short: "Predict files with a model, and write the predictions to a file",
		Long: `Predict recordings (CSV or Parquet), one after another, or one data set, each series as a
stream of its own. The predictions are written to a file, one line each (.jsonl or .csv).
They have the same bits as those of the live stage.

The model is --model, otherwise model.safetensors, otherwise the model of the job of a
running stage. With a model file, no server is needed.

` + resumeHelp,
		Example: `  eusn-stream predict pumps.csv --model pumps.safetensors
  eusn-stream predict week1.parquet week2.csv --model new.safetensors --output weeks.csv`,
		Args: cobra.MinimumNArgs(1),
	}
	cmd.Flags().StringVar(&o.split, "split", string(archive.Test), "part of a data set to predict: train or test")
	return o.complete(a, cmd, "predictions.jsonl", predictFlags, func(args []string) (replay.Backfill, error) {
		o.files = args
		if o.split != string(archive.Train) && o.split != string(archive.Test) {
			return replay.Backfill{}, fmt.Errorf("--split %s: want train or test", o.split)
		}
		return replay.Backfill{LeadIn: -1}, nil
	})
}

// NewBackfill makes the command "job backfill".
func NewBackfill(a *cli.App) *cobra.Command {
	var o backfillOptions
	cmd := &cobra.Command{
		Use:   "backfill --since TIME --output FILE",
		Short: "Predict a job's stored input again, in parallel to the running job",
		Long: `Predict a job's stored input with the job's model, or with a newer one (--model), and write
the predictions to a file, one line each (.jsonl or .csv). The running job is not touched:
nothing is published, and it keeps its input, states and predictions. The same model
gives the same bits as the live stage.

--since TIME is 24h (ago), a date (from 00:00 UTC on), a time like 2026-01-31T12:00:00Z,
or start for all that is stored. Predictions are those of messages stored from then on,
up to --until or until now. To know which sequences are open at that time, the log is read
from its first message. --lead-in 1h reads only the hour before: faster, but a sequence
that began earlier lacks samples, its prediction has the flag gap, and windows and counts
may lie at other places than the job's. The policy endless refuses that.

` + resumeHelp,
		Example: `  eusn-stream job backfill --since 24h --output yesterday.jsonl
  eusn-stream job backfill --since 2026-01-01T00:00:00Z --until 2026-02-01T00:00:00Z --model new.safetensors --output january.csv --nats-url nats://host:4222`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&o.since, "since", "", "24h (ago), a date (UTC), a time like 2026-01-31T12:00:00Z, or start")
	f.StringVar(&o.until, "until", "", "only what was stored before then, in the same form (default: until now)")
	f.StringVar(&o.leadIn, "lead-in", "", "read the log from so long before --since, such as 1h (default: from its first message)")
	server.AddJobFlags(f)
	cobra.CheckErr(cmd.MarkFlagRequired("since"))
	o.complete(a, cmd, "", backfillFlags, func([]string) (replay.Backfill, error) { return o.ofLog(time.Now()) })
	cobra.CheckErr(cmd.MarkFlagRequired("output"))
	return cmd
}

const resumeHelp = `After Ctrl-C, a kill or a full disk the same command continues where it was: each
prediction is in the file once. Until all are there, the file is called FILE.part. It
uses one core; --limit bounds the samples per second.`

// complete adds the common parts of predict and job backfill. work checks the other
// flags.
func (o *backfillOptions) complete(a *cli.App, cmd *cobra.Command, out string, names []string, work func(args []string) (replay.Backfill, error)) *cobra.Command {
	var file string
	f := cmd.Flags()
	f.StringVarP(&file, "config", "c", "", "configuration file of the stage")
	f.StringVarP(&o.out, "output", "o", out, "file of predictions to write: .jsonl or .csv")
	f.Float64Var(&o.limit, "limit", 0, "samples per second at most; 0 = as fast as possible")
	f.StringP("model", "m", "", "model file (default model.safetensors, otherwise the job's model; of job backfill the job's)")
	config.ShowDefaults(f, names)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !writesLines(o.out) {
			return fmt.Errorf("--output %s: want a name that ends in .jsonl or .csv", o.out)
		}
		if !(o.limit >= 0 && o.limit <= maxRate) {
			return fmt.Errorf("--limit: want a positive number, at most %g", float64(maxRate))
		}
		w, err := work(args)
		if err != nil {
			return err
		}
		w.Out, w.Rate = o.out, o.limit
		return a.Do(func(ctx context.Context, _ []string) error {
			c, err := server.StageConfig(a, file, f, names)
			if err != nil {
				return err
			}
			return runBackfill(ctx, a, c, *o, w)
		})(cmd, args)
	}
	return cmd
}

// ofLog returns the part of the log given by the flags.
func (o *backfillOptions) ofLog(now time.Time) (w replay.Backfill, err error) {
	if o.since == "" {
		return w, errors.New("--since is empty: want how long ago, a time, or start")
	}
	if o.since != cli.FromStart {
		if w.From, err = cli.PointInTime("since", o.since, now, backfillHelp); err != nil {
			if _, there := os.Stat(o.since); there == nil {
				err = cli.Fail(cli.ExitUsage, fmt.Errorf("--since %s is a file", o.since), "eusn-stream predict "+cli.QuoteForShell(o.since)+", which predicts files")
			}
			return w, err
		}
	}
	if w.From.After(now) {
		return w, fmt.Errorf("--since %s is in the future: nothing is stored then", o.since)
	}
	if w.To, err = cli.PointInTime("until", o.until, now, backfillHelp); err != nil {
		return w, err
	}
	if o.until != "" && !w.To.After(w.From) {
		return w, fmt.Errorf("--until %s is not after --since %s", o.until, o.since)
	}
	if w.LeadIn, err = cli.LeadIn(o.leadIn); err != nil {
		return w, err
	}
	w.Range = strings.TrimSpace("--since " + o.since + given(" --until ", o.until) + given(" --lead-in ", o.leadIn))
	return w, nil
}

func given(flag, value string) string {
	if value == "" {
		return ""
	}
	return flag + value
}

func runBackfill(ctx context.Context, a *cli.App, c config.Config, o backfillOptions, w replay.Backfill) error {
	if err := cli.OutputFile(o.out, append(o.files, c.Model)...); err != nil {
		return err
	}
	log := a.Logger(c.Log.Level, c.Log.Format)
	b, err := o.openServer(ctx, a, c, log)
	if err != nil {
		return err
	}
	defer b.Close()
	ctx = b.EndOnRefusal(ctx)
	m, err := o.loadModel(ctx, a, b, &c)
	if err != nil {
		return err
	}
	gives := func(outcome.Part) bool { return false }
	for _, h := range m.Readouts {
		if c.Stage.Readout == "" || c.Stage.Readout == h.Name {
			gives = h.Gives
			break
		}
	}
	w.Head, w.Line = linesFor(o.out, gives)
	engine, slow, err := engines.Choose(c.Stage.Engine, m.Network.Spec)
	if err != nil {
		return err
	}
	if slow != "" {
		a.Say("note: %s", slow)
	}
	job := &pipeline.Job{Config: server.PipelineConfig(c), Model: m, ModelName: filepath.Base(c.Model), NewEngine: engines.New(engine), Log: log}
	p := a.Progress()
	defer p.Close()
	var before replay.BackfillDone // of earlier commands, for the forecast
	if len(o.files) > 0 {
		old, err := openOld(ctx, a, o, m.Channels)
		if err != nil {
			return err
		}
		defer old.closeFile()
		w.Input, w.Range, w.Messages = old.words, "all of it", old.messages
		w.Progress = func(d replay.BackfillDone) {
			p.Report(int64(d.Samples-before.Samples), old.rows-int64(before.Samples), "samples predicted")
		}
	} else {
		job.Dial = func(ctx context.Context, name string) (*nats.Conn, error) {
			return b.Dial(ctx, "eusn-stream/"+c.Job+"/"+name)
		}
		w.Progress = func(d replay.BackfillDone) {
			p.Report(int64(messagesRead(d)-messagesRead(before)), int64(d.All-messagesRead(before)), "messages read")
		}
	}
	began := time.Now()
	w.Begun = func(plan replay.BackfillPlan) {
		before = plan.Done
		sayPlan(a, c, o, plan)
	}
	done, err := replay.WriteBackfill(ctx, job, w)
	p.Close()
	if known := new(cli.Failure); errors.As(b.ExplainRefusal(err), &known) {
		return known
	}
	if err != nil {
		return backfillFailure(err, c.Model, o, done)
	}
	return printBackfilled(a, o, done, time.Since(began))
}

// openServer opens the server of the job; for files, a server that is not used.
func (o *backfillOptions) openServer(ctx context.Context, a *cli.App, c config.Config, log *slog.Logger) (*server.Broker, error) {
	if len(o.files) > 0 {
		return new(server.Broker), nil
	}
	return server.OpenJob(ctx, a, c, server.Need{}, log)
}

// loadModel loads the model that predicts: of the job, or for files of a file. It sets c.Model
// to its name.
func (o *backfillOptions) loadModel(ctx context.Context, a *cli.App, b *server.Broker, c *config.Config) (m *reservoir.Model, err error) {
	if len(o.files) > 0 {
		return loadForFiles(ctx, a, c)
	}
	m, c.Model, err = b.JobModel(ctx, a, *c)
	if errors.Is(err, admin.ErrNoJob) {
		err = server.NoJob(ctx, b, err, "eusn-stream job backfill, with the same flags and")
	}
	return m, err
}

// loadForFiles loads the configured model file. If the file does not exist, and no flag names it,
// the model is the one of the job of a running stage.
func loadForFiles(ctx context.Context, a *cli.App, c *config.Config) (*reservoir.Model, error) {
	if _, err := os.Stat(c.Model); err != nil && !a.Changed("model") {
		if b, err := server.OpenJob(ctx, a, *c, server.Need{Stage: true}, a.Logger("warn", c.Log.Format)); err == nil {
			defer b.Close()
			if m, name, err := b.JobModel(ctx, a, *c); err == nil {
				a.Say("model %s of job %s", name, c.Job)
				c.Model = name
				return m, nil
			}
		}
	}
	return models.LoadForStage(c.Model)
}

func messagesRead(d replay.BackfillDone) uint64 { return d.Before + d.Messages }

// sayPlan describes the computation ahead.
func sayPlan(a *cli.App, c config.Config, o backfillOptions, plan replay.BackfillPlan) {
	if plan.Again {
		a.Say("continuing with %s.part: %d messages are read, with %d predictions", o.out, messagesRead(plan.Done), plan.Done.Predictions)
	}
	if plan.Begin == 0 || plan.Again {
		return
	}
	if !plan.JobModel {
		a.Say("note: %s is not the model that job %s runs: the predictions are this model's", c.Model, c.Job)
	}
	a.Say("reading messages %d to %d of the log of job %s; predictions from message %d on", plan.Begin, plan.Last, c.Job, plan.First)
	if plan.Begin > 1 {
		a.Say("note: the reading does not begin with the log's message 1: sequences that began earlier lack samples, and their predictions have the flag gap; windows and counts may lie at other places than the job's")
	} else if plan.First > plan.Begin && o.leadIn == "" {
		a.Say("messages before that are read for the states alone; --lead-in makes that shorter")
	}
}

func printBackfilled(a *cli.App, o backfillOptions, d replay.BackfillDone, took time.Duration) error {
	if d.Removed > 0 {
		a.Say("warning: %d messages were removed from the log before they could be read; sequences that they may belong to have the flag gap", d.Removed)
	}
	if d.Unusable > 0 {
		a.Say("warning: %d messages could not be used, the first because: %s", d.Unusable, d.Reason)
	}
	if a.JSON {
		return a.PrintJSON(struct {
			File string `json:"file"`
			replay.BackfillDone
			Seconds float64 `json:"seconds"` // of this command, without earlier commands
		}{o.out, d, took.Seconds()})
	}
	a.Print("%d predictions of %d messages in %s", d.Predictions, d.Messages, o.out)
	return nil
}

// backfillFailure adds the next step to an error.
func backfillFailure(err error, model string, o backfillOptions, d replay.BackfillDone) error {
	part := cli.QuoteForShell(o.out + ".part")
	if messagesRead(d) == 0 {
		err = cli.OrInterrupted(err, "nothing was predicted yet")
	}
	err = cli.OrInterrupted(err, "%d predictions are in %s; the same command continues from there", d.Predictions, part)
	remove := "another --output; or, to begin again: rm " + part + " " + cli.QuoteForShell(o.out+".position")
	switch {
	case errors.Is(err, replay.ErrExists):
		return cli.Fail(cli.ExitFailure, err, "another --output, or remove the file")
	case errors.Is(err, replay.ErrInUse):
		return cli.Fail(cli.ExitFailure, err, "wait for its end, or another --output")
	case errors.Is(err, replay.ErrOther), errors.Is(err, replay.ErrRemains):
		return cli.Fail(cli.ExitFailure, err, remove)
	case errors.Is(err, replay.ErrRange):
		return cli.Fail(cli.ExitFailure, err, "--since start, which is all that the log holds; or eusn-stream predict FILES")
	case errors.Is(err, replay.ErrUnusable):
		next := "--model with one that can read this, or other data; eusn-stream model show " + cli.QuoteForShell(model) + ", which shows this model's channels and policy"
		return cli.Fail(cli.ExitFailure, err, next)
	case errors.Is(err, admin.ErrNoJob):
		return cli.Fail(cli.ExitFailure, err, "the same command with --job and the stage's job name, and --nats-url with its server")
	}
	return cli.Fail(cli.ExitFailure, err, "the same command, when the cause is gone: it continues where it stopped")
}
