package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/pipeline"
)

func newDeadLetter(a *app) *cobra.Command {
	return group("deadletter", "List messages the stage could not use, and send them again",
		newDeadLetterList(a), newDeadLetterReplay(a))
}

func newDeadLetterList(a *app) *cobra.Command {
	return a.jobCommand(&cobra.Command{
		Use:     "list",
		Short:   "List a job's dead letters: number, time, subject, reason",
		Example: "  eusn-stream deadletter list --nats-url nats://127.0.0.1:4222",
		Args:    cobra.NoArgs,
	}, func(ctx context.Context, c Config, js jetstream.JetStream, _ []string) error {
		return a.eachDeadLetter(ctx, js, c.Job, func(d pipeline.DeadLetter) error {
			if a.json {
				return a.printJSON(map[string]any{"seq": d.Seq, "stored": d.Stored, "partition": d.Partition, "in_seq": d.InSeq,
					"subject": d.Subject, "bytes": len(d.Data), "reason": d.Reason})
			}
			a.print("%d  %s  %s  input %d, %d bytes: %s", d.Seq, d.Stored.UTC().Format(time.RFC3339), d.Subject, d.InSeq, len(d.Data), d.Reason)
			return nil
		})
	})
}

// eachDeadLetter hands over what there is now.
func (a *app) eachDeadLetter(ctx context.Context, js jetstream.JetStream, job string, do func(pipeline.DeadLetter) error) error {
	j, err := pipeline.OpenJob(ctx, js, job)
	if err != nil {
		return err
	}
	last, err := j.LastDeadLetter(ctx)
	if err != nil || last == 0 {
		return err
	}
	all := errors.New("all there is")
	err = pipeline.DeadLetters(ctx, js, job, 1, func(d pipeline.DeadLetter) error {
		if d.Seq > last {
			return all
		}
		if err := do(d); err != nil {
			return err
		}
		if d.Seq == last {
			return all
		}
		return nil
	})
	if errors.Is(err, all) {
		return nil
	}
	return err
}

func newDeadLetterReplay(a *app) *cobra.Command {
	return a.jobCommand(&cobra.Command{
		Use:   "replay NUMBER...",
		Short: "Publish the original bytes of dead letters to the input again",
		Long: `Publish the original bytes of dead letters to the input again, for instance
after the stage was given another model or another policy on missing values.
The samples take their place in the stream now, not where they were: a sequence
that went on without them has been predicted, with the flag poison-skipped.`,
		Example: "  eusn-stream deadletter replay 12 13 --nats-url nats://127.0.0.1:4222",
		Args:    cobra.MinimumNArgs(1),
	}, func(ctx context.Context, c Config, js jetstream.JetStream, args []string) error {
		j, err := pipeline.OpenJob(ctx, js, c.Job)
		if err != nil {
			return err
		}
		for _, text := range args {
			seq, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				return fmt.Errorf("dead letter %q, want its number from deadletter list", text)
			}
			d, err := j.DeadLetter(ctx, seq)
			if err != nil {
				return err
			}
			if err := j.Replay(ctx, d); err != nil {
				return err
			}
		}
		a.say("%d dead letters published to the input again", len(args))
		return nil
	})
}
