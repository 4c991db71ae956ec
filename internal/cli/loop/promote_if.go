package loop

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/trial"
)

// The conditions of --if.
const (
	ifBetter   = "better"
	ifNotWorse = "not-worse"
)

// condition is the condition of a promotion.
type condition struct {
	kind          string // empty: on nothing
	error, margin float64
}

func (c *condition) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.kind, "if", "", "promote a shadow only if it is better, or not-worse, on sequences with labels")
	f.Float64Var(&c.error, "error", 0.05, "with --if: probability of promoting one that is not so")
	f.Float64Var(&c.margin, "margin", 0.01, "with --if not-worse: how much less often it may be right, as a share of all sequences")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case c.kind == "" && (f.Changed("error") || f.Changed("margin")):
			return errors.New("--error and --margin are for --if")
		case c.kind != "" && c.kind != ifBetter && c.kind != ifNotWorse:
			return fmt.Errorf("--if %q: want %s or %s", c.kind, ifBetter, ifNotWorse)
		case c.kind != ifNotWorse && f.Changed("margin"):
			return errors.New("--margin is for --if not-worse")
		case !(c.error > 0 && c.error < 1) || !(c.margin > 0 && c.margin < 1):
			return errors.New("--error and --margin: want more than 0 and less than 1")
		}
		return run(cmd, args)
	}
}

// holds compares a shadow with the active readout, whose fingerprint it returns. The
// error is the reason why the condition does not hold.
func (c *condition) holds(ctx context.Context, a *cli.App, js jetstream.JetStream, job, print string) (active string, err error) {
	r, err := trial.Read(ctx, js, job, print)
	if err != nil {
		return "", err
	}
	refuse := func(next, format string, args ...any) (string, error) {
		return "", cli.Fail(cli.ExitFailure, fmt.Errorf("nothing was promoted: "+format, args...), next)
	}
	if len(r.Shadows) == 0 || r.Shadows[0].Predictions == 0 {
		return refuse("eusn-stream model shadow "+print+", and this command when sequences have been predicted and labeled", "%s has predicted nothing as a shadow of %s, which predicts now", print, r.Active)
	}
	s := &r.Shadows[0]
	if s.Labeled == 0 {
		return refuse("eusn-stream labels add; eusn-stream model shadow "+print+" --report", "no sequence that %s has predicted as a shadow has a label", print)
	}
	found := fmt.Sprintf("of %d labeled sequences the active readout is right in %d and the shadow in %d; the active one alone in %d, the shadow alone in %d", s.Labeled, s.ActiveRight, s.ShadowRight, s.ActiveOnly, s.ShadowOnly)
	const next = "eusn-stream model shadow report, and more labels; model promote without --if promotes it all the same"
	if c.kind == ifBetter {
		p, ok := s.Better(c.error)
		if !ok {
			return refuse(next, "%s. If both were right equally often, a difference so large would have the probability %.3g; want at most %g", found, p, c.error)
		}
		a.Say("%s: better, with error probability %.3g", found, p)
		return r.Active, nil
	}
	loss, ok := s.NotWorse(c.error, c.margin)
	if !ok {
		return refuse(next, "%s. With error probability %g the shadow may be right less often by %.4f of all sequences; want less than %g", found, c.error, loss, c.margin)
	}
	a.Say("%s: less often right by at most %.4f of all sequences, with error probability %g", found, max(0, loss), c.error)
	return r.Active, nil
}
