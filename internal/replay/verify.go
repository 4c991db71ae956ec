package replay

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/owner"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/shard"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/stats"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/eusn-stream/eusn-stream/pipeline"
)

// Verification is the outcome of Verify.
type Verification struct {
	Partition int    `json:"partition"`
	Snapshot  string `json:"snapshot"` // the first state, empty = from the first message
	Replayed  uint64 `json:"replayed"` // input messages
	InSeq     uint64 `json:"in_seq"`   // the digests were compared up to this input message
	Digest    string `json:"digest"`   // of the state rebuilt
	Recorded  string `json:"recorded"` // of the state the stage had
}

// Verify rebuilds a partition's state from its snapshot and the input, on an engine of its own, and compares its
// digest with the committed digest. Config, Model and NewEngine must be the running stage's; nothing else is used.
// Messages are read as the job reads them, whatever Config.Input is. The error names the difference. A running stage
// is not disturbed.
func Verify(ctx context.Context, js jetstream.JetStream, job *pipeline.Job, part int) (v Verification, err error) {
	l, err := prepare(job)
	if err != nil {
		return Verification{Partition: part}, err
	}
	if err := l.open(ctx, js, nil); err != nil {
		return Verification{Partition: part}, err
	}
	snaps, err := store.FindSnapshots(ctx, js, l.stored.Name)
	if err != nil {
		return Verification{Partition: part}, err
	}
	err = l.stored.WithSnapshot(ctx, part, func() error {
		v, err = l.verify(ctx, snaps, part)
		return err
	})
	return v, err
}

// verify is Verify with the present snapshots.
func (l *jobLog) verify(ctx context.Context, snaps *store.Snapshots, part int) (Verification, error) {
	v, j := Verification{Partition: part}, l.stored
	record, err := j.Record(ctx, part)
	if err != nil || record.Mark.Seq == 0 { // nothing was ever committed
		return v, err
	}
	counters := new(stats.Counters)
	linear, _ := l.Predicting()
	sh, err := shard.New(l.shardConfig(), l.Model, linear, l.NewEngine, counters, l.Log)
	if err != nil {
		return v, err
	}
	defer sh.Close()
	sh.StoreRows(snaps, ctx)               // rows are read from there, none are stored
	network := sh.Machine.Shape.Identity() // whatever the readout
	if err := owner.OtherRecord(wire.OutputSubject(j.Name, part), record, sh.Arithmetic, network); err != nil {
		return v, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &owner.Worker{
		Job: j.Name, Model: network,
		Server:   owner.Server{JS: j.JS, In: l.in, Out: j.Out, Snaps: snaps},
		Counters: counters, Log: l.Log, Now: time.Now, Lease: l.Config.Lease, Shards: ctx,
	}
	v.Snapshot, v.InSeq, v.Recorded = record.Snap, record.Mark.Seq, record.Mark.Digest.String()
	began, digest, err := owner.Rebuild(ctx, w, sh, part, record)
	if err == nil {
		v.Snapshot = began
	}
	v.Digest, v.Replayed = digest.String(), counters.Replayed.Load()
	return v, err
}
