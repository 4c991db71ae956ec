package operate

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/bridge"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/owner"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// Snapshot reads the snapshot in a partition's record, for admin.ReadState to inspect,
// or for Import. It is complete and includes the stored rows. The stage may run.
func Snapshot(ctx context.Context, js jetstream.JetStream, job string, part int) (b []byte, err error) {
	j, snaps, err := store.OpenStates(ctx, js, job)
	if err != nil {
		return nil, err
	}
	err = j.WithSnapshot(ctx, part, func() error {
		b, err = snapshotOf(ctx, j, snaps, part)
		return err
	})
	return b, err
}

func snapshotOf(ctx context.Context, j *store.Job, snaps *store.Snapshots, part int) ([]byte, error) {
	r, err := j.Record(ctx, part)
	if err != nil {
		return nil, err
	}
	if r.Snap == "" {
		return nil, fmt.Errorf("pipeline: partition %d of job %q has no snapshot yet: the stage stores one after snapshot_messages messages, every snapshot_every, and when it stops", part, j.Name)
	}
	b, err := snaps.Get(ctx, r.Snap)
	if err != nil {
		return nil, fmt.Errorf("pipeline: snapshot %s: %w", r.Snap, err)
	}
	return owner.IncludeRows(ctx, snaps, b)
}

// Import makes the states in a snapshot the beginning of a partition of a job that has
// not run yet: streams continue in the middle of their sequences, and producers with
// their numbers. It creates the job's NATS streams. The number of partitions must equal
// the number of the job with the snapshot.
func Import(ctx context.Context, js jetstream.JetStream, c pipeline.Config, b []byte) error {
	source, err := bridge.AdoptServer(ctx, js, &c)
	if err != nil {
		return err
	}
	p, sh, err := decodeImport(c, b)
	if err != nil {
		return err
	}
	if err := store.EnsureStreams(ctx, js, bridge.Layout(c), slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	snaps, err := store.OpenSnapshots(ctx, js, c.Job, c.Replicas)
	if err != nil {
		return err
	}
	out, err := js.Stream(ctx, wire.OutputStream(c.Job))
	if err != nil {
		return fmt.Errorf("pipeline: %w", err)
	}
	if b, err = p.EncodeRewound(sh); err != nil {
		return err
	}
	com := &store.Committer{JS: js, Stream: out, Job: c.Job, Part: p.ID, Retries: func() {}}
	switch _, seq, err := com.Read(ctx); {
	case err != nil:
		return err
	case seq > 0:
		return fmt.Errorf("pipeline: partition %d of job %q has already started: import into a new job", p.ID, c.Job)
	}
	// The first worker brings the readout: any readout may continue from these states.
	own := wire.Entry{Identity: sh.Identity(), Worker: "import", Source: source}
	switch job, err := store.AgreeEntry(ctx, &own, js, out, c.Job); {
	case err != nil:
		return err
	case own.Differs(job.Identity) != "":
		return fmt.Errorf("pipeline: partition %d was computed with another network, policy, channels or arithmetic than that of job %q: import into a new job: %w", p.ID, c.Job, pipeline.ErrOtherModel)
	}
	return publishImported(ctx, com, snaps, own, b)
}

// publishImported stores a state, and the record of a partition that begins with the
// state.
func publishImported(ctx context.Context, com *store.Committer, snaps *store.Snapshots, own wire.Entry, b []byte) error {
	empty, err := wire.NoPredictions(own.Meta)
	if err != nil {
		return err
	}
	r := wire.Record{Kind: wire.KindReleased, Worker: own.Worker, Snap: wire.SnapshotName(com.Part, 0, 0), Identity: own.Identity}
	if err := snaps.Put(ctx, r.Snap, b); err != nil {
		return err
	}
	if _, err := com.Publish(ctx, r, 0, empty); err != nil {
		return fmt.Errorf("pipeline: record of partition %d: %w", com.Part, err)
	}
	return nil
}

// CheckImport reports why Import would refuse a snapshot, as far as known without a
// server, and returns the snapshot's partition and network: a job imports only one
// network.
func CheckImport(c pipeline.Config, b []byte) (partition int, network string, err error) {
	p, sh, err := decodeImport(c.WithDefaults(), b)
	if err != nil {
		return 0, "", err
	}
	return p.ID, sh.Identity().Network, nil
}

// decodeImport decodes a snapshot for a job with this configuration: the server must
// assign the keys to the same partition.
func decodeImport(c pipeline.Config, b []byte) (*state.Partition, state.Shape, error) {
	if err := c.Validate(); err != nil {
		return nil, state.Shape{}, err
	}
	sh, part, err := state.ShapeIn(b)
	if err != nil {
		return nil, sh, err
	}
	p, err := state.Decode(b, sh, part)
	switch {
	case err != nil:
		return nil, sh, err
	case p.Away > 0:
		return nil, sh, state.ErrApart
	case part >= c.Partitions:
		return nil, sh, fmt.Errorf("pipeline: the snapshot is from partition %d, but job %q has %d partitions: set stage.partitions as in the job it comes from", part, c.Job, c.Partitions)
	}
	layout := bridge.Layout(c)
	for key := range p.Sources {
		if err := layout.Input.CheckKey(key); err != nil {
			return nil, sh, fmt.Errorf("pipeline: the snapshot is of a job with other keys: %w: set input.subject to one with as many wildcards as in the job it comes from", err)
		}
		if got := layout.Input.PartitionOf(key, c.Partitions); got != part {
			return nil, sh, fmt.Errorf("pipeline: the snapshot is from partition %d, but with %d partitions its key %q belongs to partition %d: set stage.partitions as in the job it comes from", part, c.Partitions, key, got)
		}
	}
	return p, sh, nil
}
