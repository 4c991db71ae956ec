package loop

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os/user"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/server"
	"github.com/eusn-stream/eusn-stream/internal/cli/term"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/labels"
	"github.com/eusn-stream/eusn-stream/internal/timeunit"
)

// NewLabels returns "labels" and its subcommands.
func NewLabels(a *cli.App) *cobra.Command {
	return cli.Group("labels", "Add, list and export labels for training", newLabelsAdd(a), newLabelsList(a), newLabelsExport(a))
}

// labelsCommand makes a command that works with the labels of a job.
func labelsCommand(a *cli.App, cmd *cobra.Command, run func(ctx context.Context, js jetstream.JetStream, job string) error) *cobra.Command {
	cmd.Args = cobra.NoArgs
	failure := func(err error) error {
		return cli.Fail(cli.ExitFailure, err, "eusn-stream doctor; the roles labeler and operator may work with labels (docs/secure.md)")
	}
	with := server.Beside{As: "labels", Failure: failure}
	return server.RunningCommand(a, cmd, with, func(ctx context.Context, c config.Config, js jetstream.JetStream, _ []string) error {
		return run(ctx, js, c.Job)
	})
}

// labelArgs are the flags of labels add.
type labelArgs struct {
	stream, from, to, class, who string
	seq                          uint64
	row                          uint32
	withdraw                     bool
}

func newLabelsAdd(a *cli.App) *cobra.Command {
	var o labelArgs
	cmd := labelsCommand(a, &cobra.Command{
		Use:   "add",
		Short: "Add, correct or withdraw a label",
		Long: `Say what the samples of a stream were from a time on until before another one, or
what the sequence of a prediction was: --seq and --row are those of the prediction
(tail --json).

A label replaces the earlier one of the same person for the same samples or sequence:
so a correction is another label. --withdraw takes it back. The same label twice counts
once. "eusn-stream learn" learns from labels. A label of samples that are not there is
kept, too. The job must exist: its stage has run.`,
		Example: `  eusn-stream labels add --stream pump-7 --since 2026-01-31T12:00:00Z --until 2026-01-31T12:00:05Z --class imbalance
  eusn-stream labels add --stream pump-7 --seq 1041 --row 39 --class healthy --who anna
  eusn-stream labels add --stream pump-7 --seq 1041 --row 39 --withdraw --who anna`,
	}, func(ctx context.Context, js jetstream.JetStream, job string) error {
		l, err := o.label(time.Now())
		if err != nil {
			return cli.Fail(cli.ExitUsage, err, "eusn-stream labels add --help")
		}
		_, err = labels.Add(ctx, js, job, l)
		if err == nil {
			a.Say("stored")
		}
		return err
	})
	f := cmd.Flags()
	f.StringVar(&o.stream, "stream", "", "the stream, as predictions name it")
	f.StringVar(&o.from, "since", "", "time of the first sample: like 2026-01-31T12:00:00.5Z, or ns since 1970")
	f.StringVar(&o.to, "until", "", "time before which the last sample was, likewise")
	f.Uint64Var(&o.seq, "seq", 0, "instead of times: seq of the prediction")
	f.Uint32Var(&o.row, "row", 0, "row of the prediction")
	cmd.MarkFlagsRequiredTogether("seq", "row") // row 0 is another sequence
	cmd.MarkFlagsRequiredTogether("since", "until")
	cmd.MarkFlagsOneRequired("since", "seq")
	f.StringVar(&o.class, "class", "", "what it was")
	f.BoolVar(&o.withdraw, "withdraw", false, "take the label back")
	f.StringVar(&o.who, "who", "", "author of the label (default the user of this machine)")
	return cmd
}

// label returns the label given by the flags.
func (o *labelArgs) label(now time.Time) (labels.Label, error) {
	l := labels.Label{Stream: o.stream, Seq: o.seq, Row: o.row, Class: o.class, Who: o.who, When: now}
	if l.Who == "" {
		u, err := user.Current()
		if err != nil {
			return l, fmt.Errorf("--who is required, because the user of this machine is unknown: %w", err)
		}
		l.Who = u.Username
	}
	if o.withdraw == (o.class != "") {
		return l, errors.New("want --class, or --withdraw")
	}
	for _, at := range []struct {
		flag, text string
		to         *int64
	}{{"since", o.from, &l.From}, {"until", o.to, &l.To}} {
		if at.text == "" {
			continue
		}
		var err error
		if *at.to, err = timeunit.Parse("--"+at.flag, at.text); err != nil {
			return l, err
		}
	}
	return l, l.CheckLabel()
}

// readLabels reads the labels of a job; all, or only valid labels.
func readLabels(ctx context.Context, a *cli.App, js jetstream.JetStream, job, stream string, all bool) ([]labels.Stored, error) {
	if err := labels.Open(ctx, js, job); err != nil {
		return nil, err
	}
	var found []labels.Stored
	err := labels.Read(ctx, js, job, stream,
		func(l labels.Stored) error { found = append(found, l); return nil },
		func(number uint64, err error) { a.Say("message %d is no label and is left out: %v", number, err) })
	if !all {
		found = labels.Current(found)
	}
	return found, err
}

func newLabelsList(a *cli.App) *cobra.Command {
	var stream string
	var all bool
	cmd := labelsCommand(a, &cobra.Command{
		Use:   "list",
		Short: "List the labels that count, oldest first",
		Long: `List the labels that count, oldest first: stream, samples or sequence, label, who, when.
A label that was corrected or withdrawn does not count; --all lists these, too, in the
order in which they were stored.`,
		Example: "  eusn-stream labels list --stream pump-7\n  eusn-stream labels list --all --json",
	}, func(ctx context.Context, js jetstream.JetStream, job string) error {
		found, err := readLabels(ctx, a, js, job, stream, all)
		if err != nil {
			return err
		}
		for _, stored := range found {
			l := stored.Label
			if a.JSON {
				text, err := l.Marshal()
				if err != nil {
					return err
				}
				a.Print("%s", text)
				continue
			}
			what := term.OneField(l.Class)
			if l.Class == "" {
				what = "(withdrawn)"
			}
			a.Print("%s  %s  %s  %s  %s", term.OneField(l.Stream), place(l), what, term.OneField(l.Who), l.When.UTC().Format(time.RFC3339))
		}
		a.SayNone(len(found), "labels")
		return nil
	})
	cmd.Flags().StringVar(&stream, "stream", "", "only this stream")
	cmd.Flags().BoolVar(&all, "all", false, "also labels that were corrected or withdrawn")
	return cmd
}

// place describes the target of a label.
func place(l labels.Label) string {
	if l.Seq != 0 {
		return fmt.Sprintf("seq %d row %d", l.Seq, l.Row)
	}
	return rfc3339(l.From) + " to " + rfc3339(l.To)
}

func rfc3339(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339Nano) }

func newLabelsExport(a *cli.App) *cobra.Command {
	var stream string
	cmd := labelsCommand(a, &cobra.Command{
		Use:   "export",
		Short: "Print the labels that count as CSV",
		Long: `Print the labels that count as CSV with the columns stream, from, to, seq, row, label,
who and when. A label has either from and to (RFC 3339), or seq and row.`,
		Example: "  eusn-stream labels export >labels.csv",
	}, func(ctx context.Context, js jetstream.JetStream, job string) error {
		found, err := readLabels(ctx, a, js, job, stream, false)
		if err != nil {
			return err
		}
		w := csv.NewWriter(a.Stdout)
		if err := w.Write([]string{"stream", "from", "to", "seq", "row", "label", "who", "when"}); err != nil {
			return err
		}
		for _, stored := range found {
			l := stored.Label
			row := []string{l.Stream, "", "", "", "", l.Class, l.Who, l.When.UTC().Format(time.RFC3339Nano)}
			if l.Seq != 0 {
				row[3], row[4] = strconv.FormatUint(l.Seq, 10), strconv.FormatUint(uint64(l.Row), 10)
			} else {
				row[1], row[2] = rfc3339(l.From), rfc3339(l.To)
			}
			if err := w.Write(row); err != nil {
				return err
			}
		}
		a.SayNone(len(found), "labels")
		w.Flush()
		return w.Error()
	})
	cmd.Flags().StringVar(&stream, "stream", "", "only this stream")
	return cmd
}
