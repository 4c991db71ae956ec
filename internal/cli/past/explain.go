package past

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/engines"
	"github.com/eusn-stream/eusn-stream/internal/cli/models"
	"github.com/eusn-stream/eusn-stream/internal/cli/server"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/explain"
	"github.com/eusn-stream/eusn-stream/internal/replay"
	"github.com/eusn-stream/eusn-stream/pipeline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// explainOptions are the options specific to explain.
type explainOptions struct {
	stream    string
	last      bool
	seq       uint64
	row       uint32
	output    uint64
	partition int
	number    uint64
	features  int
	stretches int
	picture   string
}

// NewExplain is "explain".
func NewExplain(a *cli.App) *cobra.Command {
	var o explainOptions
	var cmd *cobra.Command
	cmd = server.JobCommand(a, &cobra.Command{
		Use:   "explain",
		Short: "Explain a prediction by its samples and model, and recompute it",
		Long: `Explain one prediction: which worker made it, with which readout, of which samples, and
what speaks for its class. It computes the prediction again from the job's log and says
whether the scores are the same, bit for bit; if they are not, it says why. A running
stage is not affected, and nothing is stored.

Name the prediction in one of three ways: --stream with --last, or with --seq and --row
as labels name it; --message with the number of a message of the job's output (and
--number, if it has several predictions); or --partition and --number, the number of a
prediction in its partition. If several have the same seq and row, it is the newest.

The model is the job's, from its registry, or --model. Use the stage's configuration
(-c), because what the samples are depends on it.`,
		Example: `  eusn-stream explain --last --stream pump-3
  eusn-stream explain --stream pump-3 --seq 412 --row 99 --nats-url nats://host:4222
  eusn-stream explain --message 90817 --number 2 --json
  eusn-stream explain --last --stream pump-3 --picture why.svg`,
		Args: cobra.NoArgs,
	}, func(ctx context.Context, c config.Config, js jetstream.JetStream, _ []string) error {
		asked, err := o.asked(cmd.Flags().Changed)
		if err != nil {
			return cli.Fail(cli.ExitUsage, err, "eusn-stream explain --help")
		}
		if err := cli.OutputFile(o.picture, c.Model); err != nil {
			return err
		}
		return explainOne(ctx, a, c, js, asked, &o, cmd.Flags().Changed("model"))
	})
	f := cmd.Flags()
	f.StringVar(&o.stream, "stream", "", "stream of the prediction")
	f.BoolVar(&o.last, "last", false, "the newest prediction of --stream")
	f.Uint64Var(&o.seq, "seq", 0, "seq of the prediction, as in the output")
	f.Uint32Var(&o.row, "row", 0, "row of the prediction, as in the output (default the last one with this seq)")
	f.Uint64Var(&o.output, "message", 0, "number of a message of the job's output")
	f.IntVar(&o.partition, "partition", 0, "partition")
	f.Uint64Var(&o.number, "number", 0, "which prediction of the message or of the partition, from 1")
	f.IntVar(&o.features, "top", 5, "how many of the strongest features and members are shown")
	f.IntVar(&o.stretches, "stretches", 24, "into how many parts the samples are divided at most, to compute the prediction without each; 0 = none")
	f.StringVar(&o.picture, "picture", "", "also draw it: an SVG file, which a browser shows; replaces an older one")
	f.StringP("model", "m", "", "model file of the stage (default the one in the job's registry)")
	return cmd
}

// mostStretches is how many a picture has room for.
const mostStretches = 200

// drawn writes the picture of an explanation to a file.
func drawn(e *explain.Explanation, path string) error {
	if e.Score == nil {
		return cli.Fail(cli.ExitFailure, fmt.Errorf("%s: nothing to draw: %s", path, cmp.Or(e.HeldWhy, e.Again.Why)), "the same command without --picture, which prints what is known")
	}
	return cli.ReplaceFile(path, picture(e), 0o644)
}

// setSample sets the sample of a stream given by the flags.
func (o *explainOptions) setSample(a *explain.Query, given func(flag string) bool) error {
	switch {
	case o.stream == "":
		return errors.New("--last, --seq and --row: of which stream? give --stream")
	case o.last == given("seq"):
		return errors.New("--stream: want --last, or --seq, but not both")
	case given("row") && !given("seq"):
		return errors.New("--row: give --seq, too")
	}
	if given("seq") {
		a.Seq = &o.seq
	}
	if given("row") {
		a.Row = &o.row
	}
	return nil
}

// asked returns the query given by the flags.
func (o *explainOptions) asked(given func(flag string) bool) (explain.Query, error) {
	has := func(flags ...string) bool { return slices.ContainsFunc(flags, given) }
	a := explain.Query{Stream: o.stream, Output: o.output, Partition: o.partition, Number: o.number}
	switch {
	case o.features < 0:
		return a, fmt.Errorf("--features %d, want 0 or more", o.features)
	case o.stretches < 0 || o.stretches > mostStretches:
		return a, fmt.Errorf("--stretches %d, want 0 to %d", o.stretches, mostStretches)
	case has("stream", "last", "seq", "row") && has("message", "partition", "number"):
		return a, errors.New("want --stream, or --message, or --partition with --number: each names a prediction in another way")
	case has("stream", "last", "seq", "row"):
		err := o.setSample(&a, given)
		return a, err
	case given("message"):
		if o.output == 0 || given("partition") || given("number") && o.number == 0 {
			return a, errors.New("--message and --number are numbers from 1; --partition is not for --message")
		}
		return a, nil
	case given("partition") && o.number > 0:
		return a, nil
	}
	return a, errors.New("which prediction? give --stream with --last or --seq, or --message, or --partition with --number")
}

// explainOne explains a prediction and prints the explanation.
func explainOne(ctx context.Context, a *cli.App, c config.Config, js jetstream.JetStream, asked explain.Query, o *explainOptions, ownModel bool) error {
	found, err := explain.Find(ctx, js, c.Job, asked)
	if errors.Is(err, explain.ErrNotFound) {
		return cli.Fail(cli.ExitFailure, err, "eusn-stream tail --since 1h --json, which shows the stream, seq and row of predictions")
	}
	if err != nil {
		return err
	}
	x, done, err := explainer(a, c, js, ownModel)
	if err != nil {
		return err
	}
	defer done()
	x.Features, x.Stretches = o.features, o.stretches
	e, err := x.Explain(ctx, found)
	done()
	if err != nil {
		return explainFailure(cli.OrInterrupted(err, "nothing was changed"))
	}
	if o.picture != "" {
		if err := drawn(e, o.picture); err != nil {
			return err
		}
		a.Say("%s: the picture of it", o.picture)
	}
	if a.JSON {
		err = a.PrintJSON(e)
	} else {
		a.Print("%s", text(e, c.Job, o.features))
	}
	if err == nil && e.Again.Broken {
		err = cli.Fail(cli.ExitIntegrity, errors.New("the prediction was computed again and has other scores: "+e.Again.Why), "eusn-stream state verify, with the stage's configuration and model")
	}
	return err
}

// explainer computes the past of a job, with progress until done is called.
func explainer(a *cli.App, c config.Config, js jetstream.JetStream, ownModel bool) (x *explain.Explainer, done func(), err error) {
	p := a.Progress()
	x = &explain.Explainer{
		JS: js,
		Job: pipeline.Job{Config: server.PipelineConfig(c), NewEngine: func(net *reservoir.Network, slots int) (reservoir.Engine, error) {
			kind, _, err := engines.Choose(c.Stage.Engine, net.Spec)
			if err != nil {
				return nil, err
			}
			return engines.New(kind)(net, slots)
		}},
		Progress: func(d replay.PastDone) {
			if d.At >= d.First {
				p.Report(int64(d.At-d.First+1), int64(d.Last-d.First+1), "messages of the log")
			}
		},
	}
	if ownModel {
		if x.Job.Model, err = models.Load(c.Model); err != nil {
			p.Close()
			return nil, nil, err
		}
		x.Job.ModelName = filepath.Base(c.Model)
	}
	return x, p.Close, nil
}

func explainFailure(err error) error {
	switch {
	case errors.Is(err, explain.ErrNoModel):
		return cli.Fail(cli.ExitFailure, err, "--model FILE, with the stage's model; or eusn-stream model publish FILE, which stores it in the registry")
	case errors.Is(err, replay.ErrPastGone):
		return cli.Fail(cli.ExitFailure, err, "a later --at; eusn-stream status --partitions, which shows the snapshots")
	case errors.Is(err, pipeline.ErrOtherModel):
		return cli.Fail(cli.ExitOtherModel, err, "the same command without --model, which takes the job's; or eusn-stream model show active --output FILE, which writes it to a file")
	}
	return err
}
