//go:build !windows

package service

import (
	"context"
	"os"
)

// Run runs the program. The argument interrupted is the exit code of the program after a
// request to end.
func Run(ctx context.Context, program Program, _ int) int {
	return program(ctx, os.Args[1:], os.Stdout, os.Stderr)
}

// Install installs a service.
func Install(Plan) error { return ErrSystem }

// Uninstall stops and removes a service; its folder stays.
func Uninstall(context.Context, string) error { return ErrSystem }

// Query returns the state of a service.
func Query(string) (Report, error) { return Report{}, ErrSystem }
