package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/codec"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/owner"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/state"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Snapshot reads the snapshot that a partition's record names, for
// admin.ReadState to take apart, or for Import. It is complete: rows that the
// stage stores apart are in it. The stage may run.
func Snapshot(ctx context.Context, js jetstream.JetStream, job string, part int) (b []byte, err error) {
	j, snaps, err := openStored(ctx, js, job)
	if err != nil {
		return nil, err
	}
	err = still(ctx, j, part, func() error {
		b, err = snapshotOf(ctx, j, snaps, part)
		return err
	})
	return b, err
}

// openStored finds a job and where its states are.
func openStored(ctx context.Context, js jetstream.JetStream, job string) (*store.Job, *store.Snapshots, error) {
	j, err := store.Open(ctx, js, job)
	if err != nil {
		return nil, nil, err
	}
	snaps, err := store.FindSnapshots(ctx, js, job)
	return j, snaps, err
}

// still does what needs a partition's snapshot, and once more if it failed
// because a running stage has replaced that meanwhile.
func still(ctx context.Context, j *store.Job, part int, f func() error) error {
	for attempt := 1; ; attempt++ {
		before, err := j.Record(ctx, part)
		if err != nil {
			return err
		}
		if err = f(); !errors.Is(err, store.ErrRow) && !store.LostSnapshot(err) || attempt == snapshotAttempts {
			return err
		}
		if now, again := j.Record(ctx, part); again != nil || now.Snap == before.Snap {
			return err
		}
	}
}

// snapshotAttempts: a stage replaces a snapshot every so many seconds.
const snapshotAttempts = 5

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
	return owner.Whole(ctx, snaps, b)
}

// Import makes the states in a snapshot the beginning of a partition of a job
// that has not run yet: streams continue in the middle of their sequences, and
// producers with their numbers. It creates the job's NATS streams. The number
// of partitions must be that of the job the snapshot comes from.
func Import(ctx context.Context, js jetstream.JetStream, c Config, b []byte) error {
	c, source, err := settleSource(ctx, js, c)
	if err != nil {
		return err
	}
	if c.Partitions == 0 {
		if c.Partitions, err = store.PartitionsOf(ctx, js, c.WithDefaults().Job); err != nil {
			return err
		}
	}
	c = c.WithDefaults()
	p, sh, err := importable(c, b)
	if err != nil {
		return err
	}
	part := p.ID
	if err := store.EnsureStreams(ctx, js, c.layout(), slog.New(slog.DiscardHandler)); err != nil {
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
	if b, err = p.Rewound(sh); err != nil {
		return err
	}
	com := &store.Committer{JS: js, Stream: out, Job: c.Job, Part: part, Retries: func() {}}
	switch _, seq, err := com.Read(ctx); {
	case err != nil:
		return err
	case seq > 0:
		return fmt.Errorf("pipeline: partition %d of job %q has already started: import into a new job", part, c.Job)
	}
	empty, err := (&run{self: self{meta: codec.PredictionMeta{}}}).newEmpty()
	if err != nil {
		return err
	}
	// The readout is the first worker's: any may continue from these states.
	own := wire.Entry{Identity: sh.Identity(), Worker: "import", Source: source}
	switch job, err := agree(ctx, &own, js, out, c.Job, empty); {
	case err != nil:
		return err
	case own.Differs(job.Identity) != "":
		return fmt.Errorf("pipeline: partition %d was computed with another network, policy, channels or arithmetic than that of job %q: import into a new job: %w", part, c.Job, ErrOtherModel)
	}
	r := wire.Record{Kind: wire.KindReleased, Worker: own.Worker, Snap: wire.SnapshotName(part, 0, 0), Identity: own.Identity}
	if err := snaps.Put(ctx, r.Snap, b); err != nil {
		return err
	}
	if _, err := com.Publish(ctx, r, 0, empty); err != nil {
		return fmt.Errorf("pipeline: record of partition %d: %w", part, err)
	}
	return nil
}

// CheckImport says what would keep Import from taking a snapshot, as far as can
// be known without a server, which partition it is of, and of which network: a
// job takes those of one alone.
func CheckImport(c Config, b []byte) (partition int, network string, err error) {
	p, sh, err := importable(c.WithDefaults(), b)
	if err != nil {
		return 0, "", err
	}
	return p.ID, sh.Identity().Network, nil
}

// importable decodes a snapshot that a job of this configuration may begin
// with: its keys are those that the server will put into its partition.
func importable(c Config, b []byte) (*state.Partition, state.Shape, error) {
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
	for key := range p.Sources {
		if err := c.pattern().CheckKey(key); err != nil {
			return nil, sh, fmt.Errorf("pipeline: the snapshot is of a job with other keys: %w: set input.subject to one with as many wildcards as in the job it comes from", err)
		}
		if got := c.pattern().PartitionOf(key, c.Partitions); got != part {
			return nil, sh, fmt.Errorf("pipeline: the snapshot is from partition %d, but with %d partitions its key %q belongs to partition %d: set stage.partitions as in the job it comes from", part, c.Partitions, key, got)
		}
	}
	return p, sh, nil
}
