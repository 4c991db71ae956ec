package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// app is what every command shares: where output goes and the global flags.
type app struct {
	stdout, stderr io.Writer
	records        io.Writer // standard error below stderr, where its lines are JSON; else nil
	json, quiet    bool
	progressMode   string
	engine         string
	started        bool // a command's own code was reached: errors are no longer about usage
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "eusn-stream",
		Short: "Streaming time-series classification with Euler State Networks on NATS",
		Long: `eusn-stream classifies time series as they stream by: Arrow record batches come
in on NATS subjects, one Euler State Network state per stream advances with each
sample, and predictions go out, also as Arrow.

  eusn-stream demo                 see all of it work, in under a minute
  eusn-stream offline import ...   make a Parquet archive of a data set
  eusn-stream offline retrain ...  train a model on it
  eusn-stream run --model M        start the stage
  eusn-stream replay --archive A   publish an archive as live data`,
		SilenceErrors: true, // report prints them, once
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unknown command %q", args[0])
			}
			return cmd.Help()
		},
	}
	root.Version = readBuildInfo().Version // the flag that people try first
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	f := root.PersistentFlags()
	f.BoolVar(&a.json, "json", false, "print results as JSON")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "print results and errors only")
	f.StringVar(&a.progressMode, "progress", "auto", "progress display: auto, plain or none")
	f.StringVar(&a.engine, "engine", "auto", "what computes: auto, gpu, avx512, avx2, neon or generic, all with the same bits; gpu-3xtf32 or gpu-2xtf32, with others")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		switch a.progressMode {
		case "auto", "plain", "none":
			err := checkEngine(a.engine)
			if s := otherBits(a.engine); err == nil && s != "" && cmd.Name() != "run" { // whose log says it
				a.say("--engine %s: %s", a.engine, s)
			}
			return err
		}
		return fmt.Errorf("--progress %s: want auto, plain or none", a.progressMode)
	}
	root.SetHelpCommand(newHelp())
	root.AddCommand(newDemo(a), newRun(a), newReplay(a), newPartitions(a), newState(a), newDeadLetter(a), newOffline(a), newModel(a), newConfig(a),
		newDoctor(a), newBench(a), newVersion(a), newExitCodesTopic())
	root.InitDefaultCompletionCmd()
	if c, _, err := root.Find([]string{"completion"}); err == nil { // run, it refuses a shell that it does not know
		c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	return root
}

// newHelp is cobra's help command, but a topic that does not exist is an
// error.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about any command",
		RunE: func(cmd *cobra.Command, args []string) error {
			topic, rest, err := cmd.Root().Find(args)
			if err != nil || topic == cmd.Root() && len(args) > 0 || len(rest) > 0 {
				return fail(exitUsage, fmt.Errorf("no help on %q", strings.Join(args, " ")), "eusn-stream --help")
			}
			topic.InitDefaultHelpFlag()
			return topic.Help()
		},
	}
}

// do makes a command's RunE: from its first line on, errors are failures and
// not wrong usage.
func (a *app) do(f func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.started = true
		return f(cmd.Context(), args)
	}
}

// group makes a command that only holds others.
func group(use, short string, children ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath())
			}
			return cmd.Help()
		},
	}
	cmd.AddCommand(children...)
	return cmd
}

// say prints a message for people, unless --quiet.
func (a *app) say(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintf(a.stderr, format+"\n", args...)
	}
}

// printJSON writes one document to standard output.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// print writes result lines to standard output.
func (a *app) print(format string, args ...any) {
	fmt.Fprintf(a.stdout, format+"\n", args...)
}
