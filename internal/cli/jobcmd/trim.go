package jobcmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/server"
	"github.com/eusn-stream/eusn-stream/internal/cli/source"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/replay"
)

// trimKeep is enough time to notice and repair a lost snapshot.
const trimKeep = 24 * time.Hour

type trimOptions struct {
	keep, every time.Duration
	without     []string
	recordings  []string
	dryRun      bool
}

func newTrim(a *cli.App) *cobra.Command {
	o := trimOptions{keep: trimKeep}
	cmd := &cobra.Command{
		Use:   "trim",
		Short: "Remove input that no job needs any more",
		Long: `Remove from a job's input the messages that are older than --min-age and that none of the
jobs that read it needs any more. A job needs the messages after the stored states of
its partitions: nothing is lost, and no prediction is flagged, even if workers are
killed. Jobs and producers may run meanwhile.

The slowest job decides, even if none of its workers runs: until its NATS streams are
deleted, or --ignore-job says that it needs nothing. Other readers of the log do not count:
late labels, learn, backfill, explain, and clients and gateways that resume, which read
the last message of a stream. Choose --min-age for them. --recording keeps what
"eusn-stream record" has not written to that folder yet.

Look first with --dry-run, which removes nothing. --interval repeats it until Ctrl-C.`,
		Example: `  eusn-stream job trim --dry-run --nats-url nats://host:4222
  eusn-stream job trim --min-age 168h --recording /data/recording --interval 1h --nats-url nats://host:4222
  eusn-stream job trim --ignore-job green --nats-url nats://host:4222`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.DurationVar(&o.keep, "min-age", o.keep, "remove only what is older")
	f.DurationVar(&o.every, "interval", 0, "again and again, so long after another; 0s = once")
	f.StringArrayVar(&o.without, "ignore-job", nil, "a job that needs nothing of the input (may be repeated)")
	f.StringArrayVar(&o.recordings, "recording", nil, "folder of a recording that is to have all that goes (may be repeated)")
	f.BoolVar(&o.dryRun, "dry-run", false, "only print what would be removed")
	server.JobCommand(a, cmd, func(ctx context.Context, c config.Config, js jetstream.JetStream, _ []string) error {
		return trim(ctx, a, js, c.Job, o)
	})
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case o.keep < 0:
			return fmt.Errorf("--min-age %v: want 0s or more", o.keep)
		case o.every < 0 || o.every > 0 && o.every < time.Second:
			return fmt.Errorf("--interval %v: want 1s or more, or 0s for once", o.every)
		case o.every > 0 && o.dryRun:
			return errors.New("--dry-run goes without --interval")
		}
		return run(cmd, args)
	}
	return cmd
}

func trim(ctx context.Context, a *cli.App, js jetstream.JetStream, job string, o trimOptions) error {
	if o.keep < admin.TrimLeast && !o.dryRun {
		a.Say("--min-age %v is less than %v: if the server loses the last minutes in a power failure, partitions may lack input to begin from", o.keep, admin.TrimLeast)
	}
	for {
		err := trimOnce(ctx, a, js, job, o)
		switch {
		case o.every == 0:
			return err
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, admin.ErrNotOwner) || errors.Is(err, admin.ErrNoReader) || errors.Is(err, admin.ErrNoJob):
			return err
		case err != nil:
			a.Say("nothing was removed, trying again in %v: %v", o.every, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(o.every):
		}
	}
}

func trimOnce(ctx context.Context, a *cli.App, js jetstream.JetStream, job string, o trimOptions) error {
	t := admin.Trim{Job: job, Keep: o.keep, Without: o.without, Dry: o.dryRun}
	for _, dir := range o.recordings {
		next, err := replay.RecordingNeeds(ctx, js, job, dir, source.RecordFiles{})
		if err != nil {
			return cli.Fail(cli.ExitFailure, err, "the same command with --recording and the folder of a recording of this input")
		}
		t.Also = append(t.Also, admin.Need{Job: "recording " + dir, Partition: -1, Message: next})
	}
	d, err := t.Run(ctx, js)
	if err != nil {
		return trimFailure(err)
	}
	if a.JSON {
		return a.PrintJSON(d)
	}
	was := "removed"
	if o.dryRun {
		was = "would be removed"
	}
	a.Print("%s: %d messages %s, %.1f MB; the first one that stays is %d, the last one is %d", d.Input, d.Removed, was, float64(d.Bytes)/1e6, d.Begins, d.Last)
	switch {
	case d.Young:
		a.Print("no job needs message %d, but it is younger than %v", d.Begins, o.keep)
	case len(d.Needs) > 0 && d.Needs[0].Partition >= 0:
		a.Print("the slowest is job %s, partition %d: it needs message %d", d.Needs[0].Job, d.Needs[0].Partition, d.Needs[0].Message)
	case len(d.Needs) > 0:
		a.Print("the slowest is %s: it needs message %d", d.Needs[0].Job, d.Needs[0].Message)
	}
	return nil
}

// trimFailure adds the next step to an error.
func trimFailure(err error) error {
	next := "eusn-stream doctor, which lists the jobs that read an input; then the same command"
	if errors.Is(err, admin.ErrNotOwner) {
		next = "eusn-stream job trim --job JOB, the job whose input it is"
	} else if errors.Is(err, admin.ErrHistory) {
		next = "the worker of that job: eusn-stream run, which reports what to do about its input; or, if the job will not continue: eusn-stream job trim --ignore-job JOB"
	}
	if errors.Is(err, admin.ErrNoJob) || errors.Is(err, nats.ErrPermissionViolation) {
		return err // the caller adds the next step
	}
	return cli.Fail(cli.ExitFailure, err, next)
}
