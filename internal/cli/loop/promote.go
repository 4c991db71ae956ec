package loop

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/operate"
	"github.com/eusn-stream/eusn-stream/internal/registry"
)

// promotionWait is how long the commands wait for the partitions to use a promotion:
// their owners check about once a second.
const promotionWait = 10 * time.Second

func newModelPromote(a *cli.App) *cobra.Command {
	var now bool
	var who string
	var c condition
	cmd := registryCommand(a, &cobra.Command{
		Use:   "promote FINGERPRINT",
		Short: "Switch a job to another readout of its registry, while the stage runs",
		Long: `Switch a job to another readout of its registry, while the stage runs. Each partition
switches at one place in its log: each stream with its next sequence, or, with --now, in
the middle of open sequences. (Where sequences never end, it is always in the middle.)
States do not change. A restart, another worker and a replay use the readout that was
active at that place, and each prediction names its readout.

The first digits of the fingerprint suffice (model list). The classes must be the job's.
The command waits until every partition has switched. A partition without a worker
switches when a worker starts.

--if better promotes a shadow (model shadow) only if it is right more often than the
active readout, on the sequences that have labels. --if not-worse promotes it if it is
worse by less than --margin. Otherwise the command says what it found, promotes nothing
and exits with 1. --error is the probability of promoting a readout that is not better,
or is worse by the margin, in one decision on labeled sequences that do not depend on
each other (docs/models.md).`,
		Example: "  eusn-stream model promote 3f9a01 --job eusn\n  eusn-stream model promote 3f9a01 --if better --error 0.05",
		Args:    cobra.ExactArgs(1),
	}, func(ctx context.Context, js jetstream.JetStream, job string, args []string) error {
		r, err := registry.Open(ctx, js, job)
		if err != nil {
			return err
		}
		print, err := r.Resolve(ctx, args[0])
		if err != nil {
			return err
		}
		o := operate.PromoteOptions{Readout: print, Now: now, Who: who}
		if c.kind != "" {
			if o.After, err = c.holds(ctx, a, js, job, print); err != nil {
				return err
			}
		}
		return promoteModel(ctx, a, js, job, o)
	})
	c.flags(cmd)
	cmd.Flags().BoolVar(&now, "now", false, "open sequences, too")
	cmd.Flags().StringVar(&who, "who", "", "who promotes it (default the user of this machine)")
	return cmd
}

func newModelRollback(a *cli.App) *cobra.Command {
	var now bool
	var who string
	cmd := registryCommand(a, &cobra.Command{
		Use:   "rollback",
		Short: "Return to the readout that was active before the last promotion",
		Long: `Promote the readout that was active before the last promotion, as model promote does. A
second rollback undoes the first.`,
		Example: "  eusn-stream model rollback --job eusn",
		Args:    cobra.NoArgs,
	}, func(ctx context.Context, js jetstream.JetStream, job string, _ []string) error {
		return promoteModel(ctx, a, js, job, operate.PromoteOptions{Now: now, Who: who})
	})
	cmd.Flags().BoolVar(&now, "now", false, "open sequences, too")
	cmd.Flags().StringVar(&who, "who", "", "who takes it back (default the user of this machine)")
	return cmd
}

// promoteModel promotes, waits for the partitions, and prints the input message of the
// promotion in each.
func promoteModel(ctx context.Context, a *cli.App, js jetstream.JetStream, job string, o operate.PromoteOptions) (err error) {
	if o.Who, err = whoOr(o.Who); err != nil {
		return err
	}
	p, err := operate.Promote(ctx, js, job, o)
	switch {
	case errors.Is(err, registry.ErrRetired), errors.Is(err, operate.ErrActive):
		return cli.Fail(cli.ExitFailure, err, "eusn-stream model list")
	case errors.Is(err, operate.ErrNoPrevious):
		return cli.Fail(cli.ExitFailure, err, "eusn-stream model list, then eusn-stream model promote FINGERPRINT")
	case errors.Is(err, operate.ErrMeanwhile):
		return cli.Fail(cli.ExitFailure, err, "eusn-stream model list, and the same command again")
	case errors.Is(err, operate.ErrNotBegun):
		return cli.Fail(cli.ExitFailure, err, "eusn-stream run --job "+cli.QuoteForShell(job))
	case err != nil:
		return err
	}
	all, err := awaitPromotion(ctx, js, job)
	if err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(all)
	}
	waiting := 0
	for _, part := range all.Partitions {
		if part.Number < p.Number {
			waiting++
			continue
		}
		a.Print("partition %d: from input message %d on", part.Partition, part.Input)
	}
	readout := p.Readout
	if readout == "" {
		readout = "the readout that the job began with"
	}
	a.Say("promotion %d: %s predicts", p.Number, readout)
	if waiting > 0 {
		a.Say("%d of %d partitions have not taken it yet: they take it when a worker that can read the registry has them", waiting, len(all.Partitions))
	}
	return nil
}

// awaitPromotion waits until every partition has taken the newest promotion, or
// for promotionWait.
func awaitPromotion(ctx context.Context, js jetstream.JetStream, job string) (operate.Promotions, error) {
	late := time.Now().Add(promotionWait)
	for {
		all, err := operate.PromotionsOf(ctx, js, job)
		if err != nil || all.Complete() || time.Now().After(late) {
			return all, err
		}
		select {
		case <-ctx.Done():
			return all, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}
