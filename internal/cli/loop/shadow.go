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
	return cli.Group("shadow", "Score a job's predictions with other readouts, in parallel with the active one",
		newShadowAdd(a), newShadowRemove(a), newShadowList(a), newShadowReport(a))
}

func newShadowAdd(a *cli.App) *cobra.Command {
	var who string
	cmd := registryCommand(a, &cobra.Command{
		Use:   "add FINGERPRINT",
		Short: "Make a readout of a job's registry a shadow",
		Long: `Make a readout of a job's registry a shadow: it scores every prediction in parallel with the
active readout, while the stage runs. Its answers go to a NATS stream of their own,
<JOB>-SHADOW, on <job>.shadow.<fingerprint>.<partition>. The job's predictions and states
do not change. Workers begin within seconds. A job may have 8 shadows. The first digits of
the fingerprint suffice (model list).`,
		Example: "  eusn-stream model shadow add 3f9a01 --job eusn",
		Args:    cobra.ExactArgs(1),
	}, func(ctx context.Context, js jetstream.JetStream, job string, args []string) error {
		return changeShadow(ctx, a, js, job, args[0], who, false)
	})
	cmd.Flags().StringVar(&who, "who", "", "who sets it (default the user of this machine)")
	return cmd
}

func newShadowRemove(a *cli.App) *cobra.Command {
	return registryCommand(a, &cobra.Command{
		Use:     "rm FINGERPRINT",
		Short:   "End a shadow; its answers stay",
		Example: "  eusn-stream model shadow rm 3f9a01",
		Args:    cobra.ExactArgs(1),
	}, func(ctx context.Context, js jetstream.JetStream, job string, args []string) error {
		return changeShadow(ctx, a, js, job, args[0], "", true)
	})
}

func newShadowList(a *cli.App) *cobra.Command {
	return registryCommand(a, &cobra.Command{
		Use:     "list",
		Short:   "List the shadows of a job",
		Example: "  eusn-stream model shadow list --job eusn",
		Args:    cobra.NoArgs,
	}, func(ctx context.Context, js jetstream.JetStream, job string, _ []string) error {
		all, err := operate.ShadowsOf(ctx, js, job)
		if err != nil {
			return err
		}
		return printShadows(a, all)
	})
}

func newShadowReport(a *cli.App) *cobra.Command {
	return registryCommand(a, &cobra.Command{
		Use:   "report [FINGERPRINT]",
		Short: "Compare shadows with the active readout",
		Long: `Show for each shadow, or for one, how often it agrees with the active readout and, on
sequences that have labels, how often each of the two is right. p is that of McNemar's exact
test (two-sided): the probability of a difference this large if both are right equally often.`,
		Example: "  eusn-stream model shadow report --job eusn",
		Args:    cobra.MaximumNArgs(1),
	}, func(ctx context.Context, js jetstream.JetStream, job string, args []string) error {
		if len(args) == 0 {
			return reportShadows(ctx, a, js, job, "")
		}
		print, err := resolveIn(ctx, js, job, args[0])
		if err != nil {
			return err
		}
		return reportShadows(ctx, a, js, job, print)
	})
}

// resolveIn completes the fingerprint of a readout in a job's registry.
func resolveIn(ctx context.Context, js jetstream.JetStream, job, name string) (string, error) {
	r, err := registry.Open(ctx, js, job)
	if err != nil {
		return "", err
	}
	return r.Resolve(ctx, name)
}

func changeShadow(ctx context.Context, a *cli.App, js jetstream.JetStream, job, name, who string, remove bool) error {
	who, err := whoOr(who)
	if err != nil {
		return err
	}
	print, err := resolveIn(ctx, js, job, name)
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
		return cli.Fail(cli.ExitFailure, err, "eusn-stream model shadow list; eusn-stream model list")
	case errors.Is(err, operate.ErrNotBegun):
		return cli.Fail(cli.ExitFailure, err, "eusn-stream run --job "+cli.QuoteForShell(job))
	case err != nil:
		return err
	}
	if remove {
		a.Say("%s is no longer a shadow; its predictions stay in the NATS stream", print)
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
	a.SayNone(len(all), "shadows")
	return nil
}
