package servicecmd

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/service"
)

const elsewhere = "on Linux the units of systemd (docs/services.md, As a service)"

// NewCommand is "service".
func NewCommand(a *cli.App) *cobra.Command {
	cmd := cli.Group("service", "Run as a service of Windows", newInstall(a), newUninstall(a), newStatus(a))
	cmd.Hidden = runtime.GOOS != "windows"
	return cmd
}

// failed says what to do next where a command for services fails.
func failed(err error, next string) error {
	if errors.Is(err, service.ErrSystem) {
		return cli.Fail(cli.ExitUsage, err, elsewhere)
	}
	return cli.Fail(cli.ExitFailure, err, next)
}

func newInstall(a *cli.App) *cobra.Command {
	var p service.Plan
	cmd := &cobra.Command{
		Use:   "install [--name NAME] [--account ACCOUNT] -- COMMAND [FLAGS]",
		Short: "Make a service of run, gateway or alarms run",
		Long: `Make a service of Windows that runs the command behind --, in a terminal that was started
with "Run as administrator". The service started with Windows (automatic, delayed), and
Windows starts it again after a failure: after 5 s, after 5 s, and then after a minute each
time. This command does not start it.

It runs as an account of its own, NT SERVICE\NAME, which Windows makes and which has no
password. It may write to its folder alone, %ProgramData%\eusn-stream\NAME: its data is there,
and its log, NAME.log. Configurations and models belong into %ProgramData%\eusn-stream, where
administrators write and services read. Give whole paths.`,
		Example: `  eusn-stream service install -- run -c C:\ProgramData\eusn-stream\stage.yaml
  eusn-stream service install --name line-7 -- gateway -c C:\ProgramData\eusn-stream\line-7.yaml
  sc start eusn-stream`,
		Args: cobra.ArbitraryArgs,
	}
	cmd.Flags().StringVar(&p.Name, "name", "", "name of the service (default eusn-stream, eusn-stream-gateway or eusn-stream-alarms)")
	cmd.Flags().StringVar(&p.Account, "account", "", `account without a password, such as "NT AUTHORITY\LocalService" (default NT SERVICE\NAME)`)
	cmd.RunE = a.Do(func(_ context.Context, args []string) error {
		p.Args = args
		p, err := p.Complete()
		if err != nil {
			return cli.Fail(cli.ExitUsage, err, "eusn-stream service install --help")
		}
		if err := service.Install(p); err != nil {
			return failed(err, "eusn-stream service install --help")
		}
		a.Say("service %s is made; start it: sc start %s", p.Name, p.Name)
		return nil
	})
	return cmd
}

func newUninstall(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "uninstall NAME",
		Short: "Stop and remove a service; its data stays",
		Long: `Stop a service of Windows and remove it. Its folder, %ProgramData%\eusn-stream\NAME, stays:
delete it yourself if nobody needs the data. It needs the rights of an administrator.`,
		Example: `  eusn-stream service uninstall eusn-stream`,
		Args:    cobra.ExactArgs(1),
	}
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		if err := service.Uninstall(ctx, args[0]); err != nil {
			return failed(err, "eusn-stream service status "+args[0])
		}
		a.Say("service %s is removed", args[0])
		return nil
	})
	return cmd
}

func newStatus(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status NAME",
		Short: "Say how a service is, and where its log is",
		Long: `Say how a service of Windows is, with which command and account it runs, and where its log
is. It exits with 0 if the service runs, and with 1 if it does not. How the job is that it
works for says eusn-stream status.`,
		Example: `  eusn-stream service status eusn-stream`,
		Args:    cobra.ExactArgs(1),
	}
	cmd.RunE = a.Do(func(_ context.Context, args []string) error {
		r, err := service.Query(args[0])
		if err != nil {
			return failed(err, "sc query "+args[0])
		}
		if a.JSON {
			if err := a.PrintJSON(r); err != nil {
				return err
			}
		} else {
			a.Print("%s is %s", r.Name, r.State)
			if r.Process != 0 {
				a.Print("process    %d", r.Process)
			}
			if r.ExitCode != 0 {
				a.Print("exit code  %d", r.ExitCode)
			}
			a.Print("command    %s\naccount    %s\nlog        %s", r.Command, r.Account, r.Log)
		}
		if r.State != service.Running {
			return cli.Fail(cli.ExitFailure, fmt.Errorf("service %s is %s", r.Name, r.State), "sc start "+r.Name+", and then its log: "+r.Log)
		}
		return nil
	})
	return cmd
}
