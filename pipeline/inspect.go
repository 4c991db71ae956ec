package pipeline

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/pipeline/consumer"
	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
)

// Job looks at a job from outside: its partitions, states and dead letters.
// It changes nothing but in Import and Replay, and needs no stage to run.
type Job struct {
	name       string
	partitions int
	js         jetstream.JetStream
	in, out    jetstream.Stream
	store      *snapshots
}

// PartitionStatus is what a partition's record says, and what waits for it.
type PartitionStatus struct {
	Partition     int           `json:"partition"`
	Owner         string        `json:"owner"` // worker; empty = nobody since it was released, or ever
	Epoch         uint64        `json:"epoch"` // rises with every claim; 0 = never claimed
	InSeq         uint64        `json:"in_seq"`
	Outs          uint64        `json:"predictions"`
	Lag           uint64        `json:"lag"`          // input messages stored but not answered by a commit; some may need none
	Digest        string        `json:"digest"`       // of the state at the last commit
	Snapshot      string        `json:"snapshot"`     // name; empty without one
	SnapshotSeq   uint64        `json:"snapshot_seq"` // last input message in it
	SnapshotBytes uint64        `json:"snapshot_bytes"`
	SnapshotAge   time.Duration `json:"snapshot_age_ns"`
}

var destinationPartitions = regexp.MustCompile(`\{\{partition\((\d+),1\)\}\}`)

// ErrNoJob is that of a job under whose name no stage has run.
var ErrNoJob = errors.New("there is no job")

// OpenJob finds a job by its name, or returns ErrNoJob.
func OpenJob(ctx context.Context, js jetstream.JetStream, name string) (*Job, error) {
	j := &Job{name: name, js: js}
	var err error
	if j.in, err = js.Stream(ctx, wire.InputStream(name)); err == nil {
		j.out, err = js.Stream(ctx, wire.OutputStream(name))
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, fmt.Errorf("pipeline: %w %q: has the stage run with this job name?", ErrNoJob, name)
	}
	if err != nil {
		return nil, fmt.Errorf("pipeline: job %q: %w", name, err)
	}
	found := destinationPartitions.FindStringSubmatch(destination(j.in.CachedInfo().Config))
	if found == nil {
		return nil, fmt.Errorf("pipeline: NATS stream %s has no partitions: it is not a stage's", wire.InputStream(name))
	}
	if j.partitions, err = strconv.Atoi(found[1]); err != nil || j.partitions < 1 || j.partitions > maxPartitions {
		return nil, fmt.Errorf("pipeline: NATS stream %s has %s partitions, want 1 to %d", wire.InputStream(name), found[1], maxPartitions)
	}
	if j.store, err = findSnapshots(ctx, js, name); err != nil {
		return nil, err
	}
	return j, nil
}

// NumPartitions is how many partitions the job has.
func (j *Job) NumPartitions() int { return j.partitions }

// PartitionOf is the partition that the messages of a key go to.
func (j *Job) PartitionOf(key string) int { return wire.PartitionOf(key, j.partitions) }

// record is a partition's last record; the zero one if there is none.
func (j *Job) record(ctx context.Context, p int) (wire.Record, error) {
	if p < 0 || p >= j.partitions {
		return wire.Record{}, fmt.Errorf("pipeline: partition %d, job %q has 0 to %d", p, j.name, j.partitions-1)
	}
	c := &committer{stream: j.out, job: j.name, part: p}
	r, _, err := c.read(ctx)
	return r, err
}

// Status reports on one partition.
func (j *Job) Status(ctx context.Context, p int) (PartitionStatus, error) {
	r, err := j.record(ctx, p)
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
		info, err := j.store.store.GetInfo(ctx, r.Snap)
		if err != nil {
			return s, fmt.Errorf("pipeline: snapshot %s of partition %d: %w", r.Snap, p, err)
		}
		s.SnapshotBytes, s.SnapshotAge = info.Size, time.Since(info.ModTime)
	}
	s.Lag, err = j.pending(ctx, p, r.InSeq)
	return s, err
}

// pending asks the server how many messages of a partition come after one.
func (j *Job) pending(ctx context.Context, p int, after uint64) (uint64, error) {
	c, err := j.in.CreateConsumer(ctx, jetstream.ConsumerConfig{
		FilterSubject: wire.InputFilter(j.name, p), AckPolicy: jetstream.AckNonePolicy, InactiveThreshold: time.Second,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: after + 1, MemoryStorage: true,
	})
	if err != nil {
		return 0, fmt.Errorf("pipeline: messages waiting for partition %d: %w", p, err)
	}
	info := c.CachedInfo()
	return info.NumPending, j.in.DeleteConsumer(ctx, info.Name)
}

// DeadLetter reads one dead letter by its number. The payload is whole: where
// it did not fit, it is read from the input, if that still has it.
func (j *Job) DeadLetter(ctx context.Context, seq uint64) (consumer.DeadLetter, error) {
	s, err := j.js.Stream(ctx, wire.DeadLetterStream(j.name))
	if err != nil {
		return consumer.DeadLetter{}, fmt.Errorf("pipeline: NATS stream %s: %w", wire.DeadLetterStream(j.name), err)
	}
	m, err := s.GetMsg(ctx, seq)
	if err != nil {
		return consumer.DeadLetter{}, fmt.Errorf("pipeline: dead letter %d of job %q: %w", seq, j.name, err)
	}
	if m.Header.Get(wire.HeaderKind) == wire.KindSentAgain {
		return consumer.DeadLetter{}, fmt.Errorf("pipeline: message %d of %s says that dead letter %s was sent again: want that one's number", seq, wire.DeadLetterStream(j.name), m.Header.Get(wire.HeaderDead))
	}
	d := consumer.DeadLetter{Seq: seq, Stored: m.Time, Subject: m.Header.Get(wire.HeaderInSubject), Reason: m.Header.Get(wire.HeaderError), Header: m.Header, Data: m.Data}
	if d.InSeq, err = strconv.ParseUint(m.Header.Get(wire.HeaderInSeq), 10, 64); err != nil {
		return d, fmt.Errorf("pipeline: dead letter %d: header %s: %w", seq, wire.HeaderInSeq, err)
	}
	if d.Partition, err = strconv.Atoi(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]); err != nil {
		return d, fmt.Errorf("pipeline: dead letter %d is on %s, which is no partition's: %w", seq, m.Subject, err)
	}
	if m.Header.Get(wire.HeaderTruncated) != "" {
		if d.InSeq == 0 {
			return d, fmt.Errorf("pipeline: dead letter %d was cut short, and its original came with an imported state: send it again from its source", seq)
		}
		whole, err := j.in.GetMsg(ctx, d.InSeq)
		if err != nil {
			return d, fmt.Errorf("pipeline: dead letter %d was cut short, and message %d of the input, its original: %w", seq, d.InSeq, err)
		}
		d.Data = whole.Data
	}
	return d, nil
}
