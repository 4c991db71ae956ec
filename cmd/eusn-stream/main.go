package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), stops()...)
	// After the first signal the default handling is back: a second Ctrl-C
	// ends the process at once, whatever still hangs.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// stops are the signals that end the program in order: Ctrl-C, SIGTERM, and
// SIGHUP, which a closed terminal or a lost login sends, unless whoever started
// the program has it ignored (nohup).
func stops() []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		all = append(all, syscall.SIGHUP)
	}
	return all
}

// run is the whole program but for signals and the exit, so that tests drive
// what the binary does. It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	out := &results{Writer: cleaned{stdout}}
	a := &app{stdout: out, stderr: cleaned{stderr}}
	if asksForJSON() {
		a.logAsJSON()
	}
	root := newRoot(a)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if !a.started && out.err == nil {
		err = fail(exitUsage, err, cmd.CommandPath()+" --help")
	}
	if out.err != nil && !errors.Is(err, out.err) {
		err = errors.Join(err, out.err)
	}
	return a.report(err)
}
