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
	// After the first signal the default handling is restored: a second Ctrl-C ends the
	// process at once, even if a step hangs.
	context.AfterFunc(ctx, stop)
	os.Exit(service.Run(ctx, root.Run, cli.ExitInterrupted))
}

// stops returns the signals for a clean end of the program: Ctrl-C, SIGTERM, and SIGHUP.
// A closed terminal or a lost login sends SIGHUP; a program started with nohup ignores
// it.
func stops() []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		all = append(all, syscall.SIGHUP)
	}
	return all
}
