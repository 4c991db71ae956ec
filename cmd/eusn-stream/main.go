package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/root"
	"github.com/eusn-stream/eusn-stream/internal/service"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), stops()...)
	// After the first signal the default handling is back: a second Ctrl-C
	// ends the process at once, whatever still hangs.
	context.AfterFunc(ctx, stop)
	os.Exit(service.Run(ctx, root.Run, cli.ExitInterrupted))
}

// stops are the signals that end the program orderly: Ctrl-C, SIGTERM, and
// SIGHUP. A closed terminal or a lost login sends SIGHUP; a program started with
// nohup ignores it.
func stops() []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		all = append(all, syscall.SIGHUP)
	}
	return all
}
