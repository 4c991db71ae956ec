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

// ErrSystem is what Install, Uninstall and Look say on other systems than Windows.
var ErrSystem = errors.New("services are made in this way on Windows alone")

// readyKey is where a context has the function that tells the manager that the program is
// ready.
type readyKey struct{}

// Follow tells the service manager that the program is ready, and systemd its status, a line,
// until ctx ends. Windows has no place for a status.
func Follow(ctx context.Context, log *slog.Logger, status func() string) {
	if ready, ok := ctx.Value(readyKey{}).(func()); ok {
		ready()
		return
	}
	systemd.Follow(ctx, log, status)
}
