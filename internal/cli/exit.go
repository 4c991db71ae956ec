package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/datafile"
	"github.com/eusn-stream/eusn-stream/internal/errtext"
	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Exit codes. Scripts rely on these codes: their meaning never changes. 2 is not used by the program: the Go runtime
// exits with 2 after a panic, a fatal error (out of memory) and SIGABRT, which a watchdog sends. A service manager
// must restart after 2.
const (
	ExitOK          = 0
	ExitFailure     = 1
	ExitConfig      = 3
	ExitUnreachable = 4
	ExitIntegrity   = 5
	ExitTolerance   = 6
	ExitOtherModel  = 7
	ExitUsage       = 64
	ExitInterrupted = 130
)

// ExitCode is an exit code and its meaning.
type ExitCode struct {
	Code    int    `json:"code"`
	Meaning string `json:"meaning"`
}

// ExitCodes are all exit codes.
var ExitCodes = []ExitCode{
	{ExitOK, "success"},
	{ExitFailure, "failure: the message describes the failure and the next step"},
	{2, "the program crashed: a panic, no memory, or SIGABRT (as the watchdog of systemd sends it); another start continues from the stored state, please report the crash"},
	{ExitConfig, "the configuration is invalid"},
	{ExitUnreachable, "the NATS server or the GPU cannot be reached"},
	{ExitIntegrity, "integrity: results that must be equal differ, or the content of an input file (archive, recording, data, model, results, states) is damaged, invalid or of another kind, or two files do not belong together; for a configuration file the code is 3"},
	{ExitTolerance, "a result is outside the requested tolerance"},
	{ExitOtherModel, "the job runs another model (network or readout), or reads its messages in another way (input.*): no partition was claimed, and another start with the same model and settings ends in the same way"},
	{ExitUsage, "usage: unknown command or flag, missing argument"},
	{ExitInterrupted, "interrupted (Ctrl-C, SIGTERM or SIGHUP); the message describes the kept data"},
}

// ExitCodesTopic is the name of the help topic with the exit codes.
const ExitCodesTopic = "exit-codes"

// NewExitCodesTopic is "help exit-codes".
func NewExitCodesTopic() *cobra.Command {
	var b strings.Builder
	b.WriteString("Exit codes:\n")
	for _, c := range ExitCodes {
		line := fmt.Sprintf("  %-4d", c.Code)
		for word := range strings.FieldsSeq(c.Meaning) {
			if len(line)+len(word) > 90 {
				b.WriteString(line + "\n")
				line = strings.Repeat(" ", 6)
			}
			line += " " + word
		}
		b.WriteString(line + "\n")
	}
	return &cobra.Command{Use: ExitCodesTopic, Short: "Meaning of each exit code", Long: b.String()}
}

// Failure is an error with an exit code and a next step.
type Failure struct {
	err  error
	Code int
	Next string // a command line or a sentence; empty without advice
}

func (f *Failure) Error() string { return f.err.Error() }

func (f *Failure) Unwrap() error { return f.err }

// Fail gives err an exit code and a next step; nil stays nil, and an error with an exit code keeps its code.
func Fail(code int, err error, next string) error {
	var f *Failure
	var i *Interrupted
	if err == nil || errors.As(err, &f) || errors.As(err, &i) || errors.Is(err, context.Canceled) {
		return err
	}
	return &Failure{err, code, next}
}

// Interrupted is the error of a command whose context ended: kept is a sentence about the data left on disk.
type Interrupted struct{ kept string }

func (i *Interrupted) Error() string { return "interrupted: " + i.kept }

// OrInterrupted replaces the error of a canceled context by an Interrupted with the kept data. Every other error
// passes.
func OrInterrupted(err error, format string, args ...any) error {
	if err == nil || !errors.Is(err, context.Canceled) {
		return err
	}
	return &Interrupted{fmt.Sprintf(format, args...)}
}

// ofContent reports whether the content of a file is at fault for err.
func ofContent(err error) bool {
	var data *datafile.ContentError
	return errors.As(err, &data) || errors.Is(err, reservoir.ErrModel)
}

// WithNext replaces the next step of err. The exit code is unchanged.
func WithNext(err error, next string) error {
	f, own := &Failure{err, ExitFailure, next}, (*Failure)(nil)
	if errors.As(err, &own) {
		f.Code = own.Code
	}
	return f
}

// Report prints err for people and returns its exit code.
func (a *App) Report(err error) int {
	var i *Interrupted
	var f *Failure
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &i):
		a.tell(i.Error(), "", ExitInterrupted)
		return ExitInterrupted
	case errors.Is(err, context.Canceled):
		a.tell("interrupted: nothing was written", "", ExitInterrupted)
		return ExitInterrupted
	}
	if !errors.As(err, &f) {
		f = &Failure{Code: ExitFailure}
	}
	if f.Code == ExitFailure && ofContent(err) { // whatever the command that met it
		f = &Failure{Code: ExitIntegrity, Next: f.Next}
	}
	if errors.Is(err, syscall.ENOSPC) { // the command's own advice is about other failures
		f = &Failure{Code: f.Code, Next: "free some space on that disk, or write to another disk"}
	}
	a.tell(errtext.For(err, a.typed()...), f.Next, f.Code)
	return f.Code
}
