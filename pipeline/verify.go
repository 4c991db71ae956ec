package pipeline

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/owner"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/stats"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Verification is the outcome of Job.Verify.
type Verification struct {
	Partition int    `json:"partition"`
	Snapshot  string `json:"snapshot"` // where it began, empty = from the first message
	Replayed  uint64 `json:"replayed"` // input messages
	InSeq     uint64 `json:"in_seq"`   // up to which the digests were compared
	Digest    string `json:"digest"`   // of the state rebuilt
	Recorded  string `json:"recorded"` // of the state the stage had
}

// Verify rebuilds a partition's state from its snapshot and the input, on an
// engine of its own, and compares its digest with the one committed. Config,
// Model and NewEngine must be the running stage's; nothing else is used. Messages
// are read as the job reads them, whatever Config.Input is. The
// error says what differs. It disturbs no running stage.
func (job *Job) Verify(ctx context.Context, js jetstream.JetStream, part int) (v Verification, err error) {
	j, snaps, err := openStored(ctx, js, job.Config.WithDefaults().Job)
	if err != nil {
		return Verification{Partition: part}, err
	}
	err = still(ctx, j, part, func() error {
		v, err = job.verify(ctx, j, snaps, part)
		return err
	})
	return v, err
}

func (job *Job) verify(ctx context.Context, j *store.Job, snaps *store.Snapshots, part int) (Verification, error) {
	v := Verification{Partition: part}
	p, err := job.Prepare()
	if err != nil {
		return v, err
	}
	record, err := j.Record(ctx, part)
	if err != nil {
		return v, err
	}
	if record.Mark.Seq == 0 {
		return v, nil // nothing was ever committed
	}
	if err := p.AdoptInput(ctx, j); err != nil {
		return v, err
	}
	c, counters := p.ShardConfig(), new(stats.Counters)
	c.MaxKey = j.Pattern.MaxKey()
	c.MaxSlots = mostSlots // rows are read from the store, none are stored there
	sh, err := shard.New(c, p.Model, p.Linear, p.NewEngine, counters, p.Log)
	if err != nil {
		return v, err
	}
	sh.StoreRows(snaps, ctx)
	defer sh.Close()
	network := sh.Machine.Shape.Identity() // whatever the readout
	if err := owner.OtherRecord(wire.OutputSubject(j.Name, part), record, sh.Arithmetic, network); err != nil {
		return v, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &owner.Worker{
		Job: j.Name, Model: network,
		Server:   owner.Server{JS: j.JS, In: j.Input(nil), Out: j.Out, Snaps: snaps},
		Counters: counters, Log: p.Log, Now: p.now(), Lease: p.Config.Lease, Shards: ctx,
	}
	v.Snapshot, v.InSeq, v.Recorded = record.Snap, record.Mark.Seq, record.Mark.Digest.String()
	began, digest, err := owner.Rebuild(ctx, w, sh, part, record)
	if err == nil {
		v.Snapshot = began
	}
	v.Digest, v.Replayed = digest.String(), counters.Replayed.Load()
	return v, err
}
