package root

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/alarms"
	"github.com/eusn-stream/eusn-stream/internal/cli/bench"
	"github.com/eusn-stream/eusn-stream/internal/cli/configcmd"
	"github.com/eusn-stream/eusn-stream/internal/cli/demo"
	"github.com/eusn-stream/eusn-stream/internal/cli/engines"
	"github.com/eusn-stream/eusn-stream/internal/cli/jobcmd"
	"github.com/eusn-stream/eusn-stream/internal/cli/live"
	"github.com/eusn-stream/eusn-stream/internal/cli/loop"
	"github.com/eusn-stream/eusn-stream/internal/cli/models"
	"github.com/eusn-stream/eusn-stream/internal/cli/offlinecmd"
	"github.com/eusn-stream/eusn-stream/internal/cli/past"
	"github.com/eusn-stream/eusn-stream/internal/cli/plan"
	"github.com/eusn-stream/eusn-stream/internal/cli/servicecmd"
	"github.com/eusn-stream/eusn-stream/internal/cli/term"
	"github.com/eusn-stream/eusn-stream/internal/cli/watchcmd"
)

// Run is the whole program except signals and the exit, so that tests run the same code as the
// binary. It returns the exit code.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cleaned := &cli.Results{Writer: term.Cleaned{Writer: stdout}}
	a := &cli.App{Stdout: cleaned, Stderr: term.Cleaned{Writer: stderr}}
	if cli.AsksForJSON() {
		a.LogAsJSON()
	}
	root := newRoot(a)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !a.Started && cleaned.Err == nil {
		a.JSON = a.JSON || slices.Contains(args, "--json") // an earlier flag was refused
		err = explainUsage(root, cmd, args, err)
	}
	if cleaned.Err != nil && !errors.Is(err, cleaned.Err) {
		err = errors.Join(err, cleaned.Err)
	}
	return a.Report(adviseError(err))
}

// Command returns the tree of all commands for documentation (manual pages), not for running.
func Command() *cobra.Command { return newRoot(&cli.App{Stdout: io.Discard, Stderr: io.Discard}) }

func newRoot(a *cli.App) *cobra.Command {
	root := &cobra.Command{
		Use:   "eusn-stream",
		Short: "Streaming time-series classification with Euler State Networks on NATS",
		Long: `eusn-stream classifies streams of sensor samples as the samples arrive. The classes are
those of your recordings. Samples come from NATS subjects (Arrow, JSON, CSV, line protocol)
or through the gateway (MQTT, HTTP, field buses). Each sample advances the state of its
stream. Predictions are published as Arrow messages, and tail prints them as text.

  eusn-stream demo              try everything, in under a minute
  eusn-stream train DATA        train a model on a CSV recording or an archive
  eusn-stream evaluate DATA     measure its accuracy on other data
  eusn-stream run --model M     start the stage
  eusn-stream replay DATA       publish a recording as live data
  eusn-stream tail              print the predictions

Messages name documents, such as docs/nats.md. The folder docs is next to the program in the
archive. A deb or rpm installs it in /usr/share/doc/eusn-stream, for zless.`,
		SilenceErrors: true, // report prints each error once
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unknown command %q", args[0])
			}
			defer a.Say("next: eusn-stream demo")
			return cmd.Help()
		},
	}
	root.Version = cli.ReadBuildInfo().Version // the flag that people try first
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	f := root.PersistentFlags()
	f.BoolVar(&a.JSON, "json", false, "print results as JSON")
	f.BoolVarP(&a.Quiet, "quiet", "q", false, "print results and errors only")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		a.Runs(cmd)
		switch a.ProgressMode {
		case "auto", "plain", "none":
			err := engines.Check(a.Engine)
			if s := engines.OtherBits(a.Engine); err == nil && s != "" && cmd.Name() != "run" { // the log of run reports it
				a.Say("--engine %s: %s", a.Engine, s)
			}
			return err
		}
		return fmt.Errorf("--progress %s: want auto, plain or none", a.ProgressMode)
	}
	root.SetHelpCommand(newHelp(a))
	model := models.NewCommand(a)
	model.AddCommand(loop.NewRegistry(a)...)
	for _, g := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"train", "Train, evaluate and predict:", []*cobra.Command{offlinecmd.NewTrain(a, "train"), offlinecmd.NewEvaluate(a), live.NewPredict(a), offlinecmd.NewImport(a), loop.NewRecord(a), model, offlinecmd.NewCommand(a)}},
		{"stage", "Run:", []*cobra.Command{demo.NewCommand(a), watchcmd.NewCommand(a), live.NewRun(a), live.NewGateway(a), live.NewReplay(a), live.NewTail(a), alarms.NewCommand(a), configcmd.NewCommand(a, live.CheckGateway), configcmd.NewSecure(a), servicecmd.NewCommand(a)}},
		{"loop", "Learn during operation (with eusn-stream model promote):", []*cobra.Command{loop.NewLabels(a), loop.NewLearn(a)}},
		{"look", "Inspect and repair:", []*cobra.Command{jobcmd.NewDoctor(a), jobcmd.NewStatus(a), jobcmd.NewState(a, past.NewStateShow(a), past.NewStateDiff(a)), jobcmd.NewJob(a, live.NewBackfill(a)), jobcmd.NewDeadLetter(a), past.NewExplain(a), plan.NewCommand(a), bench.NewCommand(a)}},
	} {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.id
			root.AddCommand(c)
		}
	}
	root.AddCommand(newVersion(a), cli.NewExitCodesTopic())
	root.InitDefaultCompletionCmd()
	if c, _, err := root.Find([]string{"completion"}); err == nil { // so that completion refuses an unknown shell
		c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	addShared(a, root)
	useDecimal(root)
	completeValues(root)
	completeHelp(root)
	return root
}

// newHelp is cobra's help command with an error for an unknown topic.
func newHelp(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about any command",
		RunE: func(cmd *cobra.Command, args []string) error {
			topic, rest, err := cmd.Root().Find(args)
			if err != nil || topic == cmd.Root() && len(args) > 0 || len(rest) > 0 {
				return cli.Fail(cli.ExitUsage, fmt.Errorf("no help on %q", strings.Join(args, " ")), "eusn-stream --help")
			}
			if a.JSON && topic.Name() == cli.ExitCodesTopic {
				return a.PrintJSON(cli.ExitCodes)
			}
			topic.InitDefaultHelpFlag()
			return topic.Help()
		},
	}
}
