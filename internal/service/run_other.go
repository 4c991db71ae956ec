//go:build !windows

package service

import (
	"context"
	"os"
)

// Run runs the program. interrupted is its exit code where it was asked to end.
func Run(ctx context.Context, program Program, _ int) int {
	return program(ctx, os.Args[1:], os.Stdout, os.Stderr)
}

// Install makes a service.
func Install(Plan) error { return ErrSystem }

// Uninstall stops and removes a service; its folder stays.
func Uninstall(context.Context, string) error { return ErrSystem }

// Look says how a service is.
func Look(string) (Report, error) { return Report{}, ErrSystem }
