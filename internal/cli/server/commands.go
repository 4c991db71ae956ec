package server

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

	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/config"
	"github.com/eusn-stream/eusn-stream/internal/natsserver"
)

// jobFlags are the flags of commands about a job.
var jobFlags = []string{"job", "nats-url", "dir"}

// JobCommand makes a command that works on a job's NATS server: the server at a URL, or an
// embedded server on a directory without a running stage.
func JobCommand(a *cli.App, cmd *cobra.Command, do func(ctx context.Context, c config.Config, js jetstream.JetStream, args []string) error) *cobra.Command {
	var file string
	f := cmd.Flags()
	f.StringVarP(&file, "config", "c", "", "configuration file of the stage")
	AddJobFlags(f)
	config.ShowDefaults(f, jobFlags)
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		names := jobFlags
		if f.Lookup("model") != nil {
			names = append(slices.Clone(jobFlags), "model")
		}
		c, err := StageConfig(a, file, f, names)
		if err != nil {
			return err
		}
		b, err := OpenOfJob(ctx, a, c, cmd.CommandPath(), cmd.Name() == "import")
		if err != nil {
			return err
		}
		defer b.Close()
		ctx = b.EndOnRefusal(ctx)
		nc, js, err := b.Open(ctx, "eusn-stream/"+c.Job+"/"+cmd.Name())
		if err != nil {
			return err
		}
		defer nc.Close()
		err = do(ctx, c, js, args)
		if errors.Is(err, admin.ErrNoJob) {
			err = NoJob(ctx, b, err, cmd.CommandPath())
		}
		if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrJetStreamNotEnabled) {
			err = cli.Fail(cli.ExitFailure, err, "eusn-stream doctor: check that JetStream is enabled on the server and for the account")
		}
		return b.ExplainRefusal(AddAdvice(err))
	})
	return cmd
}

// runningFlags are the flags of commands about a job with a running stage.
var runningFlags = []string{"nats-url", "job"}

// Beside configures a command on the server of a running stage.
type Beside struct {
	As      string            // suffix of the connection's name
	Failure func(error) error // adds the exit code and advice to an error
}

// RunningCommand makes a command that works with a job on the server of its stage, which may be
// running.
func RunningCommand(a *cli.App, cmd *cobra.Command, with Beside, run func(ctx context.Context, c config.Config, js jetstream.JetStream, args []string) error) *cobra.Command {
	var file string
	f := cmd.Flags()
	f.StringVarP(&file, "config", "c", "", "configuration file of the stage")
	f.String("nats-url", "", "NATS server (default the embedded server of a stage on this machine)")
	f.String("job", "", "name of the stage's job")
	config.ShowDefaults(f, runningFlags)
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		c, err := StageConfig(a, file, f, runningFlags)
		if err != nil {
			return err
		}
		b, err := OpenRunning(ctx, a, c, a.Logger("warn", c.Log.Format))
		if err != nil {
			return err
		}
		defer b.Close()
		ctx = b.EndOnRefusal(ctx)
		nc, js, err := b.Open(ctx, "eusn-stream/"+c.Job+"/"+with.As)
		if err != nil {
			return err
		}
		defer nc.Close()
		err = run(ctx, c, js, args)
		if errors.Is(err, admin.ErrNoJob) {
			return NoJob(ctx, b, err, cmd.CommandPath())
		}
		return with.Failure(b.ExplainRefusal(AddAdvice(err)))
	})
	return cmd
}

// listWait is the timeout for the server's list of jobs. The server does not answer a login
// without this right.
const listWait = 2 * time.Second

// NoJob adds the existing jobs to the error for an unknown job.
func NoJob(ctx context.Context, b *Broker, err error, command string) error {
	next := command + " --job JOB --nats-url URL, of the stage"
	names, unlisted := jobsOf(ctx, b)
	switch {
	case unlisted != nil:
		return cli.Fail(cli.ExitFailure, err, next)
	case len(names) == 0:
		return cli.Fail(cli.ExitFailure, fmt.Errorf("%w (this server has no jobs)", err), "eusn-stream run --model MODEL, which creates the job; or "+next)
	}
	next = command + " --job " + cli.QuoteForShell(names[0])
	if rest := len(names) - listed; rest > 0 {
		names = append(names[:listed:listed], fmt.Sprintf("and %d more", rest))
	}
	return cli.Fail(cli.ExitFailure, fmt.Errorf("%w (the jobs here are: %s)", err, strings.Join(names, ", ")), next)
}

func jobsOf(ctx context.Context, b *Broker) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, listWait)
	defer cancel()
	nc, js, err := b.Open(ctx, "eusn-stream/jobs")
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	return admin.Jobs(ctx, js)
}

// listed is the maximum number of listed jobs.
const listed = 20

// OpenOfJob opens the server of a job for a command: the server at the URL, or an embedded
// server on the directory, which no other process may be using. If fresh is set, the directory
// may be new.
func OpenOfJob(ctx context.Context, a *cli.App, c config.Config, command string, fresh bool) (*Broker, error) {
	running := command + " --nats-url " + cli.QuoteForShell(localURL(c.Server))
	if c.NATS.URL == "" {
		// The server would create the directory, and the answer of an empty job would hide the
		// mistake.
		if _, err := os.Stat(filepath.Join(c.Server.Dir, "jetstream")); errors.Is(err, os.ErrNotExist) && !fresh {
			return nil, cli.Fail(cli.ExitFailure, fmt.Errorf("%s is not the data directory of an embedded server", c.Server.Dir),
				running+", or --dir with the data directory of eusn-stream run")
		}
		c.Server.Port, c.Server.WebSocket, c.Server.Hub = natsserver.InProcess, "", ""
	}
	b, err := Open(ctx, c, a.Logger("warn", c.Log.Format))
	var f *cli.Failure
	if c.NATS.URL == "" && errors.As(err, &f) { // usually the directory of a running stage
		f.Next = running + ", if a stage is using that directory; otherwise another --dir"
	}
	return b, err
}

// AddJobFlags adds the flags for the server and the name of a job.
func AddJobFlags(f *pflag.FlagSet) {
	f.String("job", "", "name of the job")
	f.String("nats-url", "", "NATS server; a running embedded one is at nats://127.0.0.1:4222")
	f.String("dir", "", "without a URL: data directory of an embedded server that is not running")
}
