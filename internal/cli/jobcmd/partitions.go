package jobcmd

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/admin"
	"github.com/eusn-stream/eusn-stream/internal/cli"
)

// showPartitions prints the owner and the progress of each partition.
func showPartitions(ctx context.Context, a *cli.App, js jetstream.JetStream, job string) error {
	j, err := admin.Open(ctx, js, job)
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
