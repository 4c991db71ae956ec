package jobcmd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/server"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
)

// NewDeadLetter returns "deadletter" and its subcommands.
func NewDeadLetter(a *cli.App) *cobra.Command {
	return cli.Group("deadletter", "List messages that the stage could not use, and publish them again",
		newDeadLetterList(a), newResend(a))
}

// letterFlags choose dead letters.
type letterFlags struct{ reason, key, since, until string }

func (l *letterFlags) addFlags(f *pflag.FlagSet) {
	f.StringVar(&l.reason, "reason", "", "only this reason: key, header, checksum, malformed, schema, value, time, streams or event (docs/metrics.md), or a part of the message")
	f.StringVar(&l.key, "key", "", "only this key")
	f.StringVar(&l.since, "since", "", "only those stored since then: 2h (ago), a date (UTC), or a time like 2026-01-31T12:00:00Z")
	f.StringVar(&l.until, "until", "", "only those stored before then, in the same form")
}

func (l *letterFlags) given() bool { return *l != letterFlags{} }

func (l *letterFlags) filter(now time.Time) (admin.LetterFilter, error) {
	const help = "eusn-stream deadletter list --help"
	since, err1 := cli.PointInTime("since", l.since, now, help)
	until, err2 := cli.PointInTime("until", l.until, now, help)
	return admin.LetterFilter{Reason: l.reason, Key: l.key, Since: since, Until: until}, errors.Join(err1, err2)
}

func newDeadLetterList(a *cli.App) *cobra.Command {
	var which letterFlags
	var unsent bool
	cmd := server.JobCommand(a, &cobra.Command{
		Use:   "list",
		Short: "List a job's dead letters: number, time, subject, reason, and whether they were sent again",
		Long: `List the messages that a job could not use, oldest first: number, time, subject,
position in the input, size, reason, and whether the message was sent again. The
newest 100,000 are kept (dead_letters.keep; a mark of a message that was sent again
counts as one). Standard error reports how many older ones were dropped. The input
holds the originals until its own limits remove them.`,
		Example: `  eusn-stream deadletter list --nats-url nats://127.0.0.1:4222
  eusn-stream deadletter list --reason schema --since 2h --unsent`,
		Args: cobra.NoArgs,
	}, func(ctx context.Context, c config.Config, js jetstream.JetStream, _ []string) error {
		f, err := which.filter(consumer.ServerTime(ctx, js, c.Job))
		if err != nil {
			return err
		}
		f.Unsent = unsent
		j, err := admin.Open(ctx, js, c.Job)
		if err != nil {
			return err
		}
		held, err := j.Stored(ctx)
		if err != nil {
			return err
		}
		if gone := held.Average().Dropped; gone > 0 {
			a.Say("note: %d older dead letters were dropped (dead_letters.keep) or purged", gone)
		}
		count := 0
		err = j.DeadLetters(ctx, f, func(d admin.Letter) error {
			count++
			return printLetter(a, d)
		})
		if err == nil {
			a.SayNone(count, "dead letters")
		}
		return err
	})
	which.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&unsent, "unsent", false, "only those that were not sent again")
	return cmd
}

func printLetter(a *cli.App, d admin.Letter) error {
	if a.JSON {
		return a.PrintJSON(d)
	}
	a.Print("%d  %s  %s  input %d, %d bytes: %s%s", d.Seq, d.Stored.UTC().Format(time.RFC3339), d.Subject, d.InSeq, d.Bytes, cli.ErrorText(errors.New(d.Reason)), resent(d))
	return nil
}

// resent describes the resending of a dead letter.
func resent(d admin.Letter) (s string) {
	if d.Of > 0 {
		s = fmt.Sprintf(" (dead letter %d, sent again)", d.Of)
	}
	if d.SentAgain != nil {
		s += fmt.Sprintf(" [sent again %s as input %d]", d.SentAgain.UTC().Format(time.RFC3339), d.SentAs)
	}
	return s
}

func newResend(a *cli.App) *cobra.Command {
	var which letterFlags
	var all, again, dry bool
	cmd := server.JobCommand(a, &cobra.Command{
		Use:   "resend NUMBER... | --all",
		Short: "Publish the original bytes of dead letters to the input again",
		Long: `Publish the original bytes of dead letters to the input again, for example after
the stage got another model or another rule for missing values. The samples enter
the stream now, not at their old position: their sequence was predicted without
them, with the flag poison-skipped.

--all sends all dead letters that were not sent before; --reason, --key, --since and
--until select among them. A message that was sent is marked. It is not sent a
second time without --again, because its samples would count twice.`,
		Example: `  eusn-stream deadletter resend 12 13 --nats-url nats://127.0.0.1:4222
  eusn-stream deadletter resend --all --reason value --since 24h --dry-run`,
	}, func(ctx context.Context, c config.Config, js jetstream.JetStream, args []string) error {
		const help = "eusn-stream deadletter resend --help"
		switch {
		case all == (len(args) > 0):
			return cli.Fail(cli.ExitUsage, errors.New("want the numbers of dead letters, or --all"), help)
		case which.given() && !all:
			return cli.Fail(cli.ExitUsage, errors.New("--reason, --key, --since and --until need --all"), help)
		}
		f, err := which.filter(consumer.ServerTime(ctx, js, c.Job))
		if err != nil {
			return err
		}
		named := map[uint64]bool{}
		for _, text := range args {
			seq, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				return cli.Fail(cli.ExitUsage, fmt.Errorf("dead letter %q, want its number", text), "eusn-stream deadletter list, which shows the numbers")
			}
			named[seq] = true
		}
		j, err := admin.Open(ctx, js, c.Job)
		if err != nil {
			return err
		}
		chosen, err := chooseLetters(ctx, j, f, named, all, again)
		if err != nil {
			return err
		}
		if a.SayNone(len(chosen), "dead letters to send"); dry {
			a.Say("%d dead letters would be published to the input again; nothing was sent", len(chosen))
			for _, d := range chosen {
				if err := printLetter(a, d); err != nil {
					return err
				}
			}
			return nil
		}
		for n, letter := range chosen {
			d, err := j.DeadLetter(ctx, letter.Seq)
			if err == nil {
				_, err = j.Replay(ctx, d)
			}
			if err != nil {
				return cli.OrInterrupted(fmt.Errorf("after %d of %d: %w", n, len(chosen), err), "%d of %d dead letters were published and are marked", n, len(chosen))
			}
		}
		a.Say("%d dead letters published to the input again", len(chosen))
		return nil
	})
	which.addFlags(cmd.Flags())
	cmd.Flags().BoolVar(&all, "all", false, "all that were not sent before")
	cmd.Flags().BoolVar(&again, "again", false, "also those that were sent before")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only list what would be sent")
	return cmd
}

// original identifies the message of a dead letter. After the death of a worker, a message
// can have two dead letters.
type original struct {
	in           uint64
	subject, why string
	bytes        int
}

// chooseLetters finds the dead letters to be sent, before any is: with all, one for each message.
func chooseLetters(ctx context.Context, j *admin.Job, f admin.LetterFilter, named map[uint64]bool, all, again bool) ([]admin.Letter, error) {
	var chosen []admin.Letter
	seen := map[original]bool{}
	err := j.DeadLetters(ctx, f, func(d admin.Letter) error {
		o := original{d.InSeq, d.Subject, d.Why, d.Bytes}
		repeated := all && d.InSeq > 0 && seen[o]
		seen[o] = true
		switch {
		case repeated:
			return nil
		case !all && !named[d.Seq]:
			return nil
		case d.SentAgain != nil && !again && !all:
			return cli.Fail(cli.ExitFailure, fmt.Errorf("dead letter %d was sent again %s, as input message %d: its samples would count twice; nothing was sent", d.Seq, d.SentAgain.UTC().Format(time.RFC3339), d.SentAs),
				"--again to send it a second time")
		case d.SentAgain != nil && !again:
			return nil
		}
		delete(named, d.Seq)
		chosen = append(chosen, d)
		return nil
	})
	for seq := range named {
		if err == nil {
			err = cli.Fail(cli.ExitFailure, fmt.Errorf("there is no dead letter %d; nothing was sent", seq), "eusn-stream deadletter list")
		}
	}
	return chosen, err
}
