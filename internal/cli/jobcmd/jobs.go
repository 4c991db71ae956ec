package jobcmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/server"
	"github.com/eusn-stream/eusn-stream/internal/cli/term"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/fleet"
)

func newJobList(a *cli.App) *cobra.Command {
	return server.JobCommand(a, &cobra.Command{
		Use:     "list",
		Short:   "List the jobs of a server",
		Example: "  eusn-stream job list --nats-url nats://127.0.0.1:4222",
		Args:    cobra.NoArgs,
	}, func(ctx context.Context, _ config.Config, js jetstream.JetStream, _ []string) error {
		names, err := admin.Jobs(ctx, js)
		if err != nil {
			return err
		}
		if a.JSON {
			return a.PrintJSON(append([]string{}, names...))
		}
		for _, name := range names {
			a.Print("%s", name)
		}
		a.SayNone(len(names), "jobs on this server: eusn-stream run --model MODEL creates one")
		return nil
	})
}

func newJobStreams(a *cli.App) *cobra.Command {
	return server.JobCommand(a, &cobra.Command{
		Use:   "streams",
		Short: "List the streams in a job's stored input, by key, with the number of messages",
		Long: `List the keys in a job's stored input, with the number of messages of each. A key is a stream,
or a producer, such as a gateway, that names several streams in its messages.`,
		Example: "  eusn-stream job streams --job eusn",
		Args:    cobra.NoArgs,
	}, func(ctx context.Context, c config.Config, js jetstream.JetStream, _ []string) error {
		j, err := admin.Open(ctx, js, c.Job)
		if err != nil {
			return err
		}
		keys, err := j.Keys(ctx)
		if err != nil {
			return err
		}
		if a.JSON {
			return a.PrintJSON(keys)
		}
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			a.Print("%s  %d messages", term.OneField(key), keys[key])
		}
		a.SayNone(len(keys), "stored input")
		return nil
	})
}

func newJobDelete(a *cli.App) *cobra.Command {
	var yes bool
	cmd := server.JobCommand(a, &cobra.Command{
		Use:   "delete",
		Short: "Delete a job: its input, predictions, states, models and labels",
		Long: `Show the NATS streams and buckets of a job, and delete them with --yes. Nothing can bring
them back. Stop the job's workers, gateways and alarms first. An input that another job reads
is not deleted: delete the other job before.`,
		Example: "  eusn-stream job delete --job trial\n  eusn-stream job delete --job trial --yes",
		Args:    cobra.NoArgs,
	}, func(ctx context.Context, c config.Config, js jetstream.JetStream, _ []string) error {
		return deleteJob(ctx, a, js, c.Job, yes)
	})
	cmd.Flags().BoolVar(&yes, "yes", false, "delete; without it, only show what would be deleted")
	return cmd
}

func deleteJob(ctx context.Context, a *cli.App, js jetstream.JetStream, job string, yes bool) error {
	j, err := admin.Open(ctx, js, job)
	if err != nil {
		return err
	}
	if j.InputJob() == job {
		readers, err := j.Readers(ctx)
		if err != nil {
			return err
		}
		for _, reader := range readers {
			if reader != job {
				return cli.Fail(cli.ExitFailure, fmt.Errorf("job %s reads the input of job %s, which would be deleted", reader, job), "eusn-stream job delete --job "+reader)
			}
		}
	}
	report, err := fleet.BuildReport(ctx, js.Conn(), job)
	if err != nil {
		return err
	}
	if n := len(report.Processes); n > 0 {
		return cli.Fail(cli.ExitFailure, fmt.Errorf("%d processes of job %s are running", n, job), "stop them (Ctrl-C or SIGTERM), then the same command; eusn-stream status, which shows them")
	}
	streams, err := j.Streams(ctx)
	if err != nil {
		return err
	}
	if a.JSON {
		err = a.PrintJSON(map[string]any{"job": job, "streams": streams, "deleted": yes})
	} else {
		a.Print("%s", strings.Join(streams, "\n"))
	}
	if err != nil {
		return err
	}
	if !yes {
		a.Say("nothing was deleted: --yes deletes these NATS streams")
		return nil
	}
	for _, name := range streams {
		if err := js.DeleteStream(ctx, name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return cli.Fail(cli.ExitFailure, err, "the same command, which deletes the rest; if there is no job any more: nats stream rm "+name)
		}
	}
	a.Say("job %s is deleted", job)
	return nil
}
