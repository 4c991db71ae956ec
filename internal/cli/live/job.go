package live

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/pipeline/admin"
	"github.com/eusn-stream/eusn-stream/pipeline/natsserver"
)

// jobFlags are those of the commands that look at a job.
var jobFlags = []string{"job", "nats-url", "dir"}

// jobCommand makes a command that works on a job's NATS server: the one given
// by URL, or the embedded one's directory while no stage runs in it.
func jobCommand(a *cli.App, cmd *cobra.Command, do func(ctx context.Context, c config.Config, js jetstream.JetStream, args []string) error) *cobra.Command {
	var file string
	f := cmd.Flags()
	f.StringVarP(&file, "config", "c", "", "configuration file of the stage")
	addJobFlags(f)
	config.ShowDefaults(f, jobFlags)
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		names := jobFlags
		if f.Lookup("model") != nil {
			names = append(slices.Clone(jobFlags), "model")
		}
		c, err := stageConfig(a, file, f, names)
		if err != nil {
			return err
		}
		b, err := openJobServer(a, c, cmd.CommandPath(), cmd.Name() == "import")
		if err != nil {
			return err
		}
		defer b.close()
		ctx = b.heed(ctx)
		nc, js, err := b.open("eusn-stream/" + c.Job + "/" + cmd.Name())
		if err != nil {
			return err
		}
		defer nc.Close()
		err = do(ctx, c, js, args)
		if errors.Is(err, admin.ErrNoJob) {
			err = noJob(ctx, b, err, cmd.CommandPath())
		}
		if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrJetStreamNotEnabled) {
			err = cli.Fail(cli.ExitFailure, err, "eusn-stream doctor, with the same --nats-url or configuration: check that JetStream is enabled on the server and for the account")
		}
		return b.lacking(err)
	})
	return cmd
}

// JobCommand is a command of another package that works on a job's NATS server.
func JobCommand(a *cli.App, cmd *cobra.Command, do func(ctx context.Context, c config.Config, js jetstream.JetStream, args []string) error) *cobra.Command {
	return jobCommand(a, cmd, do)
}

// runningFlags are those of the commands that look at a job beside its running stage.
var runningFlags = []string{"nats-url", "job"}

// besideStage says how a command speaks with the server of a running stage.
type besideStage struct {
	as      string            // the end of its connection's name
	none    error             // the job does not exist
	failure func(error) error // gives an error its exit code and what to do
}

// runningCommand makes a command that works with a job on the server of its stage,
// which may run.
func runningCommand(a *cli.App, cmd *cobra.Command, with besideStage, run func(ctx context.Context, js jetstream.JetStream, job string, args []string) error) *cobra.Command {
	return configuredCommand(a, cmd, with, func(ctx context.Context, c config.Config, js jetstream.JetStream, args []string) error {
		return run(ctx, js, c.Job, args)
	})
}

// Beside is such a command of another package. as is the end of its connection's name,
// none the error for a job that does not exist, next what to do about any other.
func Beside(a *cli.App, cmd *cobra.Command, as string, none error, next string, run func(ctx context.Context, c config.Config, js jetstream.JetStream, args []string) error) *cobra.Command {
	failure := func(err error) error {
		var known *cli.Failure
		if err == nil || errors.As(err, &known) {
			return err
		}
		return cli.Fail(cli.ExitFailure, err, next)
	}
	return configuredCommand(a, cmd, besideStage{as, none, failure}, run)
}

func configuredCommand(a *cli.App, cmd *cobra.Command, with besideStage, run func(ctx context.Context, c config.Config, js jetstream.JetStream, args []string) error) *cobra.Command {
	var file string
	f := cmd.Flags()
	f.StringVarP(&file, "config", "c", "", "configuration file of the stage")
	f.String("nats-url", "", "NATS server (default the embedded server of a stage on this machine)")
	f.String("job", "", "name of the stage's job")
	config.ShowDefaults(f, runningFlags)
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		c, err := stageConfig(a, file, f, runningFlags)
		if err != nil {
			return err
		}
		b, err := openRunning(c, a.Logger("warn", c.Log.Format))
		if err != nil {
			return err
		}
		defer b.close()
		ctx = b.heed(ctx)
		nc, js, err := b.open("eusn-stream/" + c.Job + "/" + with.as)
		if err != nil {
			return err
		}
		defer nc.Close()
		err = run(ctx, c, js, args)
		if errors.Is(err, with.none) {
			return noJob(ctx, b, err, cmd.CommandPath())
		}
		return with.failure(b.lacking(err))
	})
	return cmd
}

// listWait is how long a server may take to list its jobs. It does not answer a
// login that may not ask.
const listWait = 2 * time.Second

// noJob is err, of a job that does not exist, with the jobs that there are.
func noJob(ctx context.Context, b *broker, err error, command string) error {
	next := command + " --job with the stage's job name, and --nats-url with its server"
	names, unlisted := jobsOf(ctx, b)
	switch {
	case unlisted != nil:
		return cli.Fail(cli.ExitFailure, err, next)
	case len(names) == 0:
		return cli.Fail(cli.ExitFailure, fmt.Errorf("%w (this server has no jobs)", err), "eusn-stream run --model MODEL, which makes the job; or "+next)
	}
	next = command + " --job " + cli.QuoteForShell(names[0])
	if more := len(names) - listed; more > 0 {
		names = append(names[:listed:listed], fmt.Sprintf("and %d more", more))
	}
	return cli.Fail(cli.ExitFailure, fmt.Errorf("%w (the jobs here are: %s)", err, strings.Join(names, ", ")), next)
}

func jobsOf(ctx context.Context, b *broker) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, listWait)
	defer cancel()
	nc, js, err := b.open("eusn-stream/jobs")
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	return admin.Jobs(ctx, js)
}

// listed is how many jobs are named at most.
const listed = 20

// openJobServer is the server of a job that a command works on: the one given by
// URL, or the embedded one's directory, which nobody else may be using. fresh says
// that it may be a new directory.
func openJobServer(a *cli.App, c config.Config, command string, fresh bool) (*broker, error) {
	if c.NATS.URL == "" {
		// The server would make the directory, and an empty job's answer hide the mistake.
		if _, err := os.Stat(filepath.Join(c.Server.Dir, "jetstream")); errors.Is(err, os.ErrNotExist) && !fresh {
			return nil, cli.Fail(cli.ExitFailure, fmt.Errorf("%s is not the data directory of an embedded server", c.Server.Dir),
				command+" --nats-url nats://127.0.0.1:4222, or --dir with the data directory of eusn-stream run")
		}
		c.Server.Port, c.Server.MQTT, c.Server.WebSocket = natsserver.InProcess, "", ""
	}
	b, err := openBroker(c, a.Logger("warn", c.Log.Format))
	var f *cli.Failure
	if c.NATS.URL == "" && errors.As(err, &f) { // mostly the stage's own directory, while it runs
		f.Next = command + " --nats-url nats://127.0.0.1:4222 if a stage is using that directory; otherwise choose another --dir"
	}
	return b, err
}

func addJobFlags(f *pflag.FlagSet) {
	f.String("job", "", "name of the job")
	f.String("nats-url", "", "NATS server; a running embedded one is at nats://127.0.0.1:4222")
	f.String("dir", "", "without a URL: data directory of an embedded server that is not running")
}
