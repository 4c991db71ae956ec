// Package service is what the program is for the service manager that started it: systemd,
// through internal/systemd, or the service manager of Windows. Without one, nothing
// changes.
//
// Windows wants more than systemd does: a service answers its manager from its first second
// on, has no standard output, and begins in a folder of the system. So Run gives it a folder
// of its own below %ProgramData%\eusn-stream, with its log, and Install makes the service and
// the folder. Only those parts are for Windows alone; what is told to the manager, and when,
// is in supervise, which runs everywhere.
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
