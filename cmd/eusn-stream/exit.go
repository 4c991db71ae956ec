package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/offline"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Exit codes. Scripts rely on them: they never change their meaning.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitConfig      = 3
	exitUnreachable = 4
	exitIntegrity   = 5
	exitTolerance   = 6
	exitOtherModel  = 7
	exitInterrupted = 130
)

const exitCodesHelp = `Exit codes:

  0    success
  1    failure: the message says what, and what to try next
  2    usage: unknown command or flag, missing argument
  3    the configuration is invalid
  4    something needed is not reachable (the NATS server, the GPU)
  5    integrity: results that must be equal differ, or the content of a file that
       is read (archive, recording, data, model, results, states) is damaged, of
       another kind or against its rules, or two do not belong together; a
       configuration's is 3
  6    a result is outside the asked tolerance
  7    the job runs another model (network or readout): nothing was claimed, and
       starting again with the same model changes nothing
  130  interrupted (Ctrl-C, SIGTERM or SIGHUP); what was kept is said before
`

func newExitCodesTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "What each exit code means",
		Long:  exitCodesHelp,
	}
}

// failure is an error that knows its exit code and what to try next.
type failure struct {
	err  error
	code int
	next string // a command line or a sentence; empty where nothing helps
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// fail gives err an exit code and a next step; nil stays nil, and an error
// that already has them keeps them.
func fail(code int, err error, next string) error {
	var f *failure
	var i *interrupted
	if err == nil || errors.As(err, &f) || errors.As(err, &i) || errors.Is(err, context.Canceled) {
		return err
	}
	return &failure{err, code, next}
}

// interrupted is what a command returns when its context ended: kept says what
// remains on disk, in a sentence.
type interrupted struct{ kept string }

func (i *interrupted) Error() string { return "interrupted: " + i.kept }

// orInterrupted replaces the error of a cancelled context by one that says
// what was kept. Every other error passes.
func orInterrupted(err error, format string, args ...any) error {
	if err == nil || !errors.Is(err, context.Canceled) {
		return err
	}
	return &interrupted{fmt.Sprintf(format, args...)}
}

// ofContent reports whether the content of a file is at fault for err.
func ofContent(err error) bool {
	var data *offline.ContentError
	return errors.As(err, &data) || errors.Is(err, reservoir.ErrModel)
}

// report prints err for people and gives its exit code.
func (a *app) report(err error) int {
	var i *interrupted
	var f *failure
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &i):
		a.tell(i.Error(), "", exitInterrupted)
		return exitInterrupted
	case errors.Is(err, context.Canceled):
		a.tell("interrupted: nothing was written", "", exitInterrupted)
		return exitInterrupted
	}
	if !errors.As(err, &f) {
		f = &failure{code: exitFailure}
	}
	if f.code == exitFailure && ofContent(err) { // whatever the command that met it
		f = &failure{code: exitIntegrity, next: f.next}
	}
	if errors.Is(err, syscall.ENOSPC) { // the command's own advice is about other failures
		f = &failure{code: f.code, next: "more room on that disk, or another place for the file"}
	}
	a.tell(err.Error(), f.next, f.code)
	return f.code
}
