package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/cli/term"
)

// App is the state shared by all commands: output and global flags.
type App struct {
	Stdout, Stderr io.Writer
	records        io.Writer // standard error below Stderr, if its lines are JSON; else nil
	JSON, Quiet    bool
	ProgressMode   string
	Engine         string
	Started        bool // a command's own code was reached: errors are no longer about usage

	command *cobra.Command // that runs; nil: not known yet
}

// screen is unfiltered standard error, for redrawn lines.
func (a *App) screen() io.Writer {
	if c, ok := a.Stderr.(term.Cleaned); ok {
		return c.Writer
	}
	return a.Stderr
}

// Progress shows how far a command is.
func (a *App) Progress() *term.Progress { return term.NewProgress(a.screen(), a.display()) }

// LiveLine shows the present activity.
func (a *App) LiveLine() *term.LiveLine { return term.NewLiveLine(a.screen(), a.display()) }

func (a *App) display() string {
	if a.Quiet {
		return "none"
	}
	return a.ProgressMode
}

// Do makes a command's RunE: errors after its first line are failures, not wrong usage.
func (a *App) Do(f func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.Started = true
		return f(cmd.Context(), args)
	}
}

// Group makes a command that only holds subcommands.
func Group(use, short string, children ...*cobra.Command) *cobra.Command {
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

// Say prints a message for people, unless --quiet.
func (a *App) Say(format string, args ...any) {
	if !a.Quiet {
		fmt.Fprintf(a.Stderr, format+"\n", forPeople(args)...)
	}
}

// SayNone prints a message for people if a list is empty.
func (a *App) SayNone(count int, things string) {
	if count == 0 {
		a.Say("no %s", things)
	}
}

// PrintJSON writes a document to standard output.
func (a *App) PrintJSON(v any) error {
	enc := json.NewEncoder(a.Stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// Print writes result lines to standard output.
func (a *App) Print(format string, args ...any) {
	fmt.Fprintf(a.Stdout, format+"\n", args...)
}

// Terminal is the terminal of standard output, for redrawing; nil: no terminal.
func (a *App) Terminal() *term.Screen {
	out := a.Stdout
	if r, ok := out.(*Results); ok {
		out = r.Writer
	}
	if c, ok := out.(term.Cleaned); ok {
		out = c.Writer
	}
	return term.OpenScreen(out)
}
