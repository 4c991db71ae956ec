package live

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/server"
	"github.com/eusn-stream/eusn-stream/internal/cli/term"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/readout/outcome"
)

// tailFlags are the flags of tail that override keys of the configuration.
var tailFlags = []string{"nats-url", "dir", "job", "subject"}

// tailOptions are the options specific to tail.
type tailOptions struct {
	since  string
	stream string // empty = all
	where  map[string]string
	follow bool
}

// NewTail is "tail".
func NewTail(a *cli.App) *cobra.Command {
	var o tailOptions
	var file string
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Print a job's predictions: from now on, or from a time on",
		Long: `Print the predictions of a job as they come, a line each: when the server stored it
(UTC), the stream, the class, its probability (or the score, where the model gives no
probability), the integrity with its flags, and where the model has them, the set of
classes, and the novelty with its p-value. --json prints lines of JSON with
everything that is known, in the form of "run --json" and with the field "stored".

Without --since it begins now and runs until Ctrl-C. With --since it prints what was
stored since then and ends; with --follow it continues until Ctrl-C.

Where a key has several tokens, --stream may have wildcards: A.*.7, or A.> for all that
begin so. If the input subject has names (input.subject: plant.{site}.line.{line}),
--where site=A chooses by them, and --json prints them as "tokens".

tail only reads. It does not join the job: it takes no partition, and leaves nothing on
the server. It may run as often as you like, also while no stage runs, if a NATS server
with the job's data does.`,
		Example: `  eusn-stream tail
  eusn-stream tail --stream pump-3 --since 10m --follow
  eusn-stream tail --subject 'plant.{site}.line.{line}' --where site=A,line=3
  eusn-stream tail --since 2026-01-31T12:00:00Z --json --nats-url nats://host:4222`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVarP(&file, "config", "c", "", "configuration file of the stage")
	f.StringVar(&o.since, "since", "", "begin with predictions stored since then: 10m (ago), a date (UTC), or a time like 2026-01-31T12:00:00Z")
	f.StringVar(&o.stream, "stream", "", "only this stream; * and > stand for tokens of its key")
	f.StringToStringVar(&o.where, "where", nil, "only streams where the names of the input subject stand for this: site=A,line=3")
	f.String("subject", "", "input subject of the job, with its names, such as plant.{site}.line.{line}")
	f.BoolVarP(&o.follow, "follow", "f", false, "with --since: continue with what comes, until Ctrl-C")
	server.AddJobFlags(f)
	config.ShowDefaults(f, tailFlags)
	cmd.RunE = a.Do(func(ctx context.Context, _ []string) error {
		c, err := server.StageConfig(a, file, f, tailFlags)
		if err != nil {
			return err
		}
		return tail(ctx, a, c, o)
	})
	return cmd
}

func tail(ctx context.Context, a *cli.App, c config.Config, o tailOptions) error {
	_, err := cli.PointInTime("since", o.since, time.Now(), "eusn-stream tail --help") // before anything is opened
	if err != nil {
		return err
	}
	chosen, err := selectionOf(o.stream, o.where, c.Input.Subject)
	if err != nil {
		return cli.Fail(cli.ExitUsage, err, "eusn-stream tail --help")
	}
	log := a.Logger("warn", c.Log.Format)
	b, err := server.OpenJob(ctx, a, c, server.Need{Stage: o.since == "" || o.follow}, log)
	if err != nil {
		return err
	}
	defer b.Close()
	ctx = b.EndOnRefusal(ctx)
	nc, js, err := b.Open(ctx, "eusn-stream/"+c.Job+"/tail")
	if err != nil {
		return err
	}
	defer nc.Close()
	since, err := cli.PointInTime("since", o.since, consumer.ServerTime(ctx, js, c.Job), "eusn-stream tail --help")
	if err != nil {
		return err
	}
	skipped := foreigners{log: log}
	span := consumer.Span{Since: since, Stored: o.since != "" && !o.follow, Skip: skipped.skip}
	if !span.Stored {
		span.Begun = func() { a.Say("reading the predictions of job %s; Ctrl-C stops", c.Job) }
	}
	var printed int
	err = b.ExplainRefusal(consumer.Read(ctx, js, c.Job, span, tailTo(a.Stdout, a.JSON, &chosen, &printed)))
	if err == nil && span.Stored {
		err = cli.OrInterrupted(ctx.Err(), "not all stored predictions were printed")
	}
	if err == nil && span.Stored && printed == 0 {
		a.Say("no predictions%s since %s; eusn-stream deadletter list shows messages that could not be used", chosen.String(), since.UTC().Format(time.RFC3339))
	}
	return cli.Fail(cli.ExitFailure, err, "eusn-stream doctor, which checks the server and the job")
}

// stored is tail's addition to a line of JSON.
type stored struct {
	Tokens map[string]string `json:"tokens,omitempty"` // of the key, by the names in the input subject
	Stored time.Time         `json:"stored"`
}

// tailTo prints the predictions of the selected streams, and counts them.
func tailTo(w io.Writer, asJSON bool, chosen *selection, printed *int) func(consumer.Output) error {
	return func(o consumer.Output) error {
		for i := range o.Predictions {
			p := &o.Predictions[i]
			tokens, ok := chosen.takes(p.Stream)
			if !ok {
				continue
			}
			line, err := []byte(nil), error(nil)
			if asJSON {
				line, err = jsonLine(p, o.Meta.Labels, o.Trace.Parent(), stored{tokens, o.Stored.UTC()})
			} else {
				line = []byte(tailText(p, o.Meta.Labels, o.Stored))
			}
			if err == nil {
				_, err = w.Write(line)
			}
			if err != nil {
				return err
			}
			*printed++
		}
		return nil
	}
}

// tailText returns a line for people, its fields two blanks apart.
func tailText(p *codec.Prediction, labels []string, stored time.Time) string {
	certainty := fmt.Sprintf("%.3f", p.Probability)
	if p.Probability == 0 { // the model gives none
		certainty = fmt.Sprintf("score %.4g", p.Score)
	}
	if n := p.Number; n.Known {
		certainty = fmt.Sprintf("%.6g [%.6g, %.6g]", n.Value, n.Low, n.High)
	}
	flags := ""
	if p.Flags != 0 {
		flags = " (" + p.Flags.String() + ")"
	}
	if p.Change != 0 {
		flags += fmt.Sprintf("  change %.3f", p.Change)
	}
	if p.Set != nil {
		set := outcome.Named{Answer: &p.Answer, Labels: labels}.ClassNames(p.Set)
		for i := range set {
			set[i] = term.OneField(set[i])
		}
		flags += "  {" + strings.Join(set, ", ") + "}"
	}
	if p.NoveltyP != 0 {
		flags += fmt.Sprintf("  novelty %.3g (p %.2g)", p.Novelty, p.NoveltyP)
	}
	return fmt.Sprintf("%s  %s  %s  %s  %s%s\n", stored.UTC().Format("2006-01-02T15:04:05.000Z"),
		term.OneField(p.Stream), term.OneField(labels[p.Class]), certainty, p.Flags.Integrity(), flags)
}
