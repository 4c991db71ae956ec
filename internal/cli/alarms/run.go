package alarms

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/alarm"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/server"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/consumer"
	"github.com/eusn-stream/eusn-stream/internal/watch"
)

// NewCommand returns the command "alarms" with its subcommands.
func NewCommand(a *cli.App) *cobra.Command {
	return cli.Group("alarms", "Raise alarms for a job's predictions by rules, list and acknowledge them", newRun(a), newList(a), newTail(a), newAck(a), newRules(a))
}

const doctorHint = "eusn-stream doctor; the rights that alarms need are in docs/alarms.md"

// addAdvice adds the next step to an error.
func addAdvice(err error) error {
	if errors.Is(err, watch.ErrNoAlarms) {
		return cli.Fail(cli.ExitFailure, err, "eusn-stream alarms run -c FILE, with the rules under alarms.rules: docs/alarms.md")
	}
	return cli.Fail(cli.ExitFailure, err, doctorHint)
}

// always is the stage argument of a command that always requires a running stage.
func always() bool { return true }

// newCommand returns a command of the group. stage reports whether it requires a running stage;
// nil: it does not.
func newCommand(a *cli.App, cmd *cobra.Command, stage func() bool, run func(ctx context.Context, c config.Config, js jetstream.JetStream, args []string) error) *cobra.Command {
	with := server.Beside{As: "alarms", Failure: addAdvice, Stage: stage}
	return server.RunningCommand(a, cmd, with, func(ctx context.Context, c config.Config, js jetstream.JetStream, args []string) error {
		err := run(ctx, c, js, args)
		if err == nil && ctx.Err() != nil && !errors.Is(ctx.Err(), context.Canceled) { // the login lacks a right
			err = ctx.Err()
		}
		return err
	})
}

// runFlags are the flags of alarms run.
type runFlags struct {
	since, save       string
	missing, takeOver bool
}

func newRun(a *cli.App) *cobra.Command {
	var flags runFlags
	cmd := newCommand(a, &cobra.Command{
		Use:   "run",
		Short: "Raise and clear alarms for a job's predictions, in parallel to its stage",
		Long: `Read a job's predictions as they come, judge them by the rules in the configuration
(alarms.rules) and publish what follows on <job>.alarm.<rule>.<key>: raised, acknowledged,
cleared. Each event is published once, also when this process, the stage or the server is
killed: start the process again, and it continues where it was. Where another process keeps
the job's alarms, this one stands by: it follows that one, and takes the alarms over when it
does not answer any more. With --take-over it does so at once, and the other one ends.

Where the configuration says so, they are sent on: to a webhook, an MQTT broker, Prometheus'
Alertmanager (alarms.webhook, alarms.mqtt, alarms.alertmanager).

A new alarm log begins now, or with --since. The bucket <JOB>-LATEST has the last
prediction and the alarms of each stream.

It runs until Ctrl-C. docs/alarm-rules.md describes rules.`,
		Example: `  eusn-stream alarms run -c stage.yaml
  eusn-stream alarms run -c stage.yaml --since 24h --nats-url nats://host:4222`,
		Args: cobra.NoArgs,
	}, always, func(ctx context.Context, c config.Config, js jetstream.JetStream, _ []string) error {
		return flags.runAlarms(ctx, a, c, js)
	})
	f := cmd.Flags()
	f.StringVar(&flags.since, "since", "", "where a new alarm log begins: 10m (ago), a date (UTC), or a time like 2026-01-31T12:00:00Z (default now)")
	f.BoolVar(&flags.missing, "missing", false, "continue where predictions are gone that were not judged")
	f.BoolVar(&flags.takeOver, "take-over", false, "take the alarms over at once from a process that keeps them, which ends")
	f.StringVar(&flags.save, "save", "", "how often the state is stored (default 30s)")
	return cmd
}

// runAlarms manages the alarms of a job until ctx ends.
func (r *runFlags) runAlarms(ctx context.Context, a *cli.App, c config.Config, js jetstream.JetStream) error {
	k, err := NewKeeper(a, c)
	if err != nil {
		return err
	}
	server.LogWarnings(c, k.log, "alarms")
	k.options.Missing, k.options.TakeOver = r.missing, r.takeOver
	if k.options.Since, err = cli.PointInTime("since", r.since, consumer.ServerTime(ctx, js, c.Job), "eusn-stream alarms run --help"); err != nil {
		return err
	}
	if r.save != "" {
		if k.options.Save, err = time.ParseDuration(r.save); err != nil || k.options.Save <= 0 {
			return cli.Fail(cli.ExitUsage, errors.New("--save "+r.save+", want a time such as 30s"), "eusn-stream alarms run --help")
		}
	}
	k.manager = true
	err = k.run(ctx, js.Conn())
	switch {
	case errors.Is(err, watch.ErrFenced):
		return cli.Fail(cli.ExitFailure, err, "start this one again, without --take-over: it is the standby of the other process")
	case errors.Is(err, alarm.ErrMissing):
		return cli.Fail(cli.ExitIntegrity, err, "the same command with --missing continues with the predictions that are there; a larger output.keep keeps more")
	case errors.Is(err, watch.ErrDiffers):
		return cli.Fail(cli.ExitIntegrity, err, "eusn-stream alarms tail --since 24h, which shows what the log has")
	case err == nil:
		a.Say("stopped; the next run continues from here")
	}
	return err
}
