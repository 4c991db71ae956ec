package service

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"github.com/eusn-stream/eusn-stream/internal/systemd"
)

// Program is the program as a function; it returns its exit code.
type Program func(ctx context.Context, args []string, stdout, stderr io.Writer) int

// ErrSystem is the error of Install, Uninstall and Query on other systems.
var ErrSystem = errors.New("this command supports only services of Windows")

// readyKey is the context key of the function that reports readiness to the manager.
type readyKey struct{}

// Notify reports readiness to the service manager, and a one-line status to systemd until ctx
// ends. Windows has no field for a status.
func Notify(ctx context.Context, log *slog.Logger, status func() string) {
	if ready, ok := ctx.Value(readyKey{}).(func()); ok {
		ready()
		return
	}
	systemd.Notify(ctx, log, status)
}
