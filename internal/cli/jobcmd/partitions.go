package jobcmd

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/cli/server"
	"github.com/eusn-stream/eusn-stream/internal/config"
)

// NewPartitions is "partitions".
func NewPartitions(a *cli.App) *cobra.Command {
	return server.JobCommand(a, &cobra.Command{
		Use:   "partitions",
		Short: "Show the owner and progress of each partition of a job",
		Long: `Show each partition of a job: the worker that owns it ("-" = none), its epoch (a
number that grows with every claim), the last input message, how many messages wait
(LAG), the number of predictions, and its snapshot with age and size.`,
		Example: "  eusn-stream partitions --nats-url nats://127.0.0.1:4222",
		Args:    cobra.NoArgs,
	}, func(ctx context.Context, c config.Config, js jetstream.JetStream, _ []string) error {
		j, err := admin.Open(ctx, js, c.Job)
		if err != nil {
			return err
		}
		var all []admin.PartitionStatus
		for p := range j.NumPartitions() {
			s, err := j.Status(ctx, p)
			if err != nil {
				return err
			}
			all = append(all, s)
		}
		if a.JSON {
			return a.PrintJSON(all)
		}
		return printPartitions(a, all)
	})
}

func printPartitions(a *cli.App, all []admin.PartitionStatus) error {
	w := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PARTITION\tOWNER\tEPOCH\tINPUT\tLAG\tPREDICTIONS\tSNAPSHOT\tAGE\tBYTES")
	for _, s := range all {
		owner, snap, age := s.Owner, s.Snapshot, "-"
		if owner == "" {
			owner = "-"
		}
		if snap == "" {
			snap = "-"
		} else {
			age = s.SnapshotAge.Round(time.Second).String()
		}
		fmt.Fprintf(w, "%d\t%s\t%d\t%d\t%d\t%d\t%s\t%s\t%d\n", s.Partition, owner, s.Epoch, s.InSeq, s.Lag, s.Outs, snap, age, s.SnapshotBytes)
	}
	return w.Flush()
}
