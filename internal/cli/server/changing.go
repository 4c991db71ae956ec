package server

import (
	"errors"
	"fmt"

	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/fleet"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// AddAdvice adds the next step to the error of a job whose stored data are lost, or that is being
// changed.
func AddAdvice(err error) error {
	if lost := (*admin.LostError)(nil); errors.As(err, &lost) {
		return cli.Fail(cli.ExitFailure, errors.New(lost.What), fleet.AdviseLost(lost))
	}
	if changing := (*wire.ChangeError)(nil); errors.As(err, &changing) {
		return cli.Fail(cli.ExitFailure, err, adviseCompletion(changing.Job, changing.Change))
	}
	return err
}

// adviseCompletion names the command that completes a change of a job.
func adviseCompletion(job string, r wire.Resize) string {
	command := fmt.Sprintf("eusn-stream job resize %d", r.To)
	if r.With != "" {
		command = "eusn-stream job replace --with " + cli.QuoteForShell(r.With)
	}
	switch {
	case r.Abandoning() && r.With != "":
		command = "eusn-stream job replace --abandon"
	case r.Abandoning():
		command = "eusn-stream job resize --abandon"
	}
	return fmt.Sprintf("%s, for job %s, completes the change; then the same command", command, job)
}
