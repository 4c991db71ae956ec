package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/store"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Job inspects a job from outside: partitions, stored data, dead letters. Only Replay
// changes anything, and no stage must run.
type Job struct {
	job       *store.Job
	snapshots jetstream.ObjectStore
	isAlone   bool // no other job reads the input; see Replay
}

// PartitionStatus is the content of a partition's record, and its waiting messages.
type PartitionStatus struct {
	Partition     int           `json:"partition"`
	Owner         string        `json:"owner"` // worker; empty = none since the release, or ever
	Epoch         uint64        `json:"epoch"` // rises with every claim; 0 = never claimed
	InSeq         uint64        `json:"in_seq"`
	Outs          uint64        `json:"predictions"`
	Lag           uint64        `json:"lag"`          // input messages stored but not answered by a commit; some may need none
	Digest        string        `json:"digest"`       // of the state at the last commit
	Snapshot      string        `json:"snapshot"`     // name; empty without a snapshot
	SnapshotSeq   uint64        `json:"snapshot_seq"` // last input message in the snapshot
	SnapshotBytes uint64        `json:"snapshot_bytes"`
	SnapshotAge   time.Duration `json:"snapshot_age_ns"`
}

// ErrNoJob reports a job name that no stage has used.
var ErrNoJob = wire.ErrNoJob

// LostError is the loss of a job's stored data: What, and Input, the job whose input is left.
type LostError = store.LostError

// Open finds a job by name, or returns ErrNoJob.
func Open(ctx context.Context, js jetstream.JetStream, name string) (*Job, error) {
	found, err := store.Open(ctx, js, name)
	if err != nil {
		return nil, err
	}
	j := &Job{job: found}
	if j.snapshots, err = js.ObjectStore(ctx, wire.SnapshotBucket(name)); err != nil {
		return nil, fmt.Errorf("admin: object store %s: %w", wire.SnapshotBucket(name), err)
	}
	return j, nil
}

// Jobs are the names of the jobs on a server, in alphabetical order.
func Jobs(ctx context.Context, js jetstream.JetStream) ([]string, error) {
	return store.Jobs(ctx, js)
}

// Streams returns the names of the NATS streams that the job has, in the order of wire.Streams.
func (j *Job) Streams(ctx context.Context) (found []string, err error) {
	for _, name := range wire.Streams(j.job.Name) {
		switch _, err := j.job.JS.Stream(ctx, name); {
		case err == nil:
			found = append(found, name)
		case !errors.Is(err, jetstream.ErrStreamNotFound):
			return nil, fmt.Errorf("admin: NATS stream %s: %w", name, err)
		}
	}
	return found, nil
}

// Name is the job's.
func (j *Job) Name() string { return j.job.Name }

// JS returns the JetStream of Open.
func (j *Job) JS() jetstream.JetStream { return j.job.JS }

// NumPartitions is how many partitions the job has.
func (j *Job) NumPartitions() int { return j.job.Partitions }

// Subject returns the input subject of the job; empty before a stage has created the
// input.
func (j *Job) Subject() string { return j.job.Pattern.Filter() }

// InputJob returns the owner of this job's input: this job, or another.
func (j *Job) InputJob() string { return j.job.InputJob() }

// Readers returns the further readers of this job's input, in alphabetical order.
func (j *Job) Readers(ctx context.Context) ([]string, error) {
	return store.ReadersOf(ctx, j.job.JS, j.job.Name)
}

// Reads returns the job's input format, as written by package internal/formats; empty =
// Arrow. Before the first run of a stage, no format is decided.
func (j *Job) Reads(ctx context.Context) (input string, decided bool, err error) {
	e, _, err := store.ReadEntry(ctx, j.job.Out, j.Name())
	return e.Input, e.Readout != "", err
}

// Keys returns the keys in the stored input, with the number of messages of each.
func (j *Job) Keys(ctx context.Context) (map[string]uint64, error) {
	info, err := j.job.In.Info(ctx, jetstream.WithSubjectFilter(wire.KeySubjects(j.InputJob(), ">")))
	if err != nil {
		return nil, fmt.Errorf("admin: NATS stream %s: %w", wire.InputStream(j.InputJob()), err)
	}
	keys := map[string]uint64{}
	for subject, messages := range info.State.Subjects {
		keys[wire.KeyOf(subject)] += messages
	}
	return keys, nil
}

// CheckOutput returns a LostError if the job has begun and its predictions are lost.
func (j *Job) CheckOutput(ctx context.Context) error {
	return store.CheckOutput(ctx, j.job.JS, j.Name(), j.InputJob())
}

// PartitionOf returns the partition of a key's messages.
func (j *Job) PartitionOf(key string) int { return j.job.Pattern.PartitionOf(key, j.job.Partitions) }

// Status reports on a partition.
func (j *Job) Status(ctx context.Context, p int) (PartitionStatus, error) {
	r, err := j.job.Record(ctx, p)
	if err != nil {
		return PartitionStatus{}, err
	}
	s := PartitionStatus{Partition: p, Epoch: r.Epoch, InSeq: r.InSeq, Outs: r.Outs, Snapshot: r.Snap, SnapshotSeq: r.SnapSeq}
	if r.Kind != wire.KindReleased {
		s.Owner = r.Worker
	}
	if r.Mark.Seq > 0 {
		s.Digest = r.Mark.Digest.String()
	}
	if r.Snap != "" {
		info, err := j.snapshots.GetInfo(ctx, r.Snap)
		if err != nil {
			return s, fmt.Errorf("admin: snapshot %s of partition %d: %w", r.Snap, p, err)
		}
		s.SnapshotBytes, s.SnapshotAge = info.Size, time.Since(info.ModTime)
	}
	s.Lag, err = j.countPending(ctx, p, r.InSeq)
	return s, err
}

// countPending asks the server how many messages of a partition follow a message.
func (j *Job) countPending(ctx context.Context, p int, after uint64) (uint64, error) {
	in := j.job.Input(nil)
	c, err := j.job.In.CreateConsumer(ctx, jetstream.ConsumerConfig{
		FilterSubject: in.Pattern.InputFilter(in.Job, p), AckPolicy: jetstream.AckNonePolicy, InactiveThreshold: time.Second,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: in.Before(after) + 1, MemoryStorage: true,
	})
	if err != nil {
		return 0, fmt.Errorf("admin: messages waiting for partition %d: %w", p, err)
	}
	info := c.CachedInfo()
	return info.NumPending, j.job.In.DeleteConsumer(ctx, info.Name)
}
