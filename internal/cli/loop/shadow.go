package loop

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/term"
	"github.com/eusn-stream/eusn-stream/internal/operate"
	"github.com/eusn-stream/eusn-stream/internal/registry"
)

func newModelShadow(a *cli.App) *cobra.Command {
	var remove, report bool
	var who string
	cmd := registryCommand(a, &cobra.Command{
		Use:   "shadow [FINGERPRINT]",
		Short: "Score a job's predictions with another readout, beside the active one",
		Long: `Make a readout of a job's registry a shadow: it scores every prediction beside the active
readout, while the stage runs. Its answers go to a NATS stream of their own,
<JOB>-SHADOW, on <job>.shadow.<fingerprint>.<partition>. The job's predictions and states
do not change. Workers begin within seconds. A job may have 8 shadows.

Without a fingerprint, the command lists the shadows. --remove ends one; its answers
stay. The first digits of the fingerprint suffice (model list).

--report shows for each shadow, or for one, how often it agrees with the active readout
and, on sequences that have labels, how often each of the two is right. p is that of
McNemar's exact test (two-sided): the probability of a difference this large if both are
right equally often.`,
		Example: "  eusn-stream model shadow 3f9a01 --job eusn\n  eusn-stream model shadow --report\n  eusn-stream model shadow 3f9a01 --remove",
		Args:    cobra.MaximumNArgs(1),
	}, func(ctx context.Context, js jetstream.JetStream, job string, args []string) error {
		if len(args) == 0 {
			if report {
				return reportShadows(ctx, a, js, job, "")
			}
			if remove {
				return cli.Fail(cli.ExitUsage, errors.New("--remove needs the fingerprint of a shadow"), "eusn-stream model shadow, which lists them")
			}
			all, err := operate.ShadowsOf(ctx, js, job)
			if err != nil {
				return err
			}
			return printShadows(a, all)
		}
		r, err := registry.Open(ctx, js, job)
		if err != nil {
			return err
		}
		print, err := r.Resolve(ctx, args[0])
		if err != nil {
			return err
		}
		if report {
			return reportShadows(ctx, a, js, job, print)
		}
		return changeShadow(ctx, a, js, job, print, who, remove)
	})
	f := cmd.Flags()
	f.BoolVar(&remove, "remove", false, "end this shadow")
	f.BoolVar(&report, "report", false, "say how the shadows do beside the readout that predicts")
	cmd.MarkFlagsMutuallyExclusive("remove", "report")
	f.StringVar(&who, "who", "", "who sets it (default the user of this machine)")
	return cmd
}

func changeShadow(ctx context.Context, a *cli.App, js jetstream.JetStream, job, print, who string, remove bool) error {
	who, err := whoOr(who)
	if err != nil {
		return err
	}
	var all []operate.Shadow
	if remove {
		all, err = operate.EndShadow(ctx, js, job, print)
	} else {
		all, err = operate.SetShadow(ctx, js, job, operate.Shadow{Readout: print, Who: who})
	}
	switch {
	case errors.Is(err, operate.ErrShadow), errors.Is(err, operate.ErrNoShadow), errors.Is(err, operate.ErrShadows), errors.Is(err, operate.ErrActive), errors.Is(err, registry.ErrRetired):
		return cli.Fail(cli.ExitFailure, err, "eusn-stream model shadow, which lists the shadows; eusn-stream model list")
	case errors.Is(err, operate.ErrNotBegun):
		return cli.Fail(cli.ExitFailure, err, "eusn-stream run --job "+cli.QuoteForShell(job))
	case err != nil:
		return err
	}
	if remove {
		a.Say("%s is no shadow any more; what it has said stays in the NATS stream", print)
	} else {
		a.Say("%s is a shadow: the workers score it from now on", print)
	}
	return printShadows(a, all)
}

func printShadows(a *cli.App, all []operate.Shadow) error {
	if a.JSON {
		return a.PrintJSON(append([]operate.Shadow{}, all...))
	}
	for _, s := range all {
		a.Print("%s  since %s  %s", s.Readout, s.When.UTC().Format(time.RFC3339), term.OneField(s.Who))
	}
	if len(all) == 0 {
		a.Say("the job has no shadows")
	}
	return nil
}
