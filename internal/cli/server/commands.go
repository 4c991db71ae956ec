package server

import (
	"context"
	"errors"
	"fmt"
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
)

// jobFlags are the flags of commands about a job.
var jobFlags = []string{"job", "nats-url", "dir"}

// JobCommand makes a command that reads or changes a job, and ends. See OpenJob for its server.
func JobCommand(a *cli.App, cmd *cobra.Command, do func(ctx context.Context, c config.Config, js jetstream.JetStream, args []string) error) *cobra.Command {
	return RunningCommand(a, cmd, Beside{As: cmd.Name(), Create: cmd.Name() == "import"}, do)
}

// Beside configures a command on the server of a job.
type Beside struct {
	As      string            // suffix of the connection's name
	Failure func(error) error // adds the exit code and advice to an error; nil: none
	Stage   func() bool       // whether the command works until it is stopped, which requires a running stage; nil: it does not
	Create  bool              // the data directory may be new
}

// RunningCommand makes a command about a job. See OpenJob for its server.
func RunningCommand(a *cli.App, cmd *cobra.Command, with Beside, run func(ctx context.Context, c config.Config, js jetstream.JetStream, args []string) error) *cobra.Command {
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
		need := Need{Create: with.Create, Stage: with.Stage != nil && with.Stage()}
		b, err := OpenJob(ctx, a, c, need, a.Logger("warn", c.Log.Format))
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
			err = NoJob(ctx, b, err, cmd.CommandPath())
		}
		if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrJetStreamNotEnabled) {
			err = cli.Fail(cli.ExitFailure, err, "eusn-stream doctor: check that JetStream is enabled on the server and for the account")
		}
		if err = b.ExplainRefusal(AddAdvice(err)); with.Failure != nil {
			err = with.Failure(err)
		}
		return err
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

// AddJobFlags adds the flags for the server and the name of a job.
func AddJobFlags(f *pflag.FlagSet) {
	f.StringP("job", "j", "", "name of the job")
	f.String("nats-url", "", "NATS server (default NATS_URL, the context of the nats command, or the embedded server of --dir)")
	f.String("dir", "", "data directory of the embedded server")
}
