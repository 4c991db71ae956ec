package store

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/pipeline/internal/wire"
)

// MaxPartitions is the most that a job can have.
const MaxPartitions = 4096

// ErrNoJob is that of a job under whose name no stage has run.
var ErrNoJob = errors.New("there is no job")

// Job is a job that exists on a server.
type Job struct {
	Name       string
	Partitions int
	Pattern    wire.Pattern // of its keys; the zero one where its input has several subjects
	JS         jetstream.JetStream
	In, Out    jetstream.Stream
}

var destinationPartitions = regexp.MustCompile(`\{\{partition\((\d+)(,\d+)*\)\}\}`)

// Open finds a job by its name, or returns ErrNoJob.
func Open(ctx context.Context, js jetstream.JetStream, name string) (*Job, error) {
	j := &Job{Name: name, JS: js}
	var err error
	if j.In, err = js.Stream(ctx, wire.InputStream(name)); err == nil {
		j.Out, err = js.Stream(ctx, wire.OutputStream(name))
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, fmt.Errorf("pipeline: %w %q: has the stage run with this job name?", ErrNoJob, name)
	}
	if err != nil {
		return nil, fmt.Errorf("pipeline: job %q: %w", name, err)
	}
	j.Pattern = PatternOf(j.In.CachedInfo().Config)
	if j.Partitions, err = partitionsOf(j.In.CachedInfo().Config); err != nil {
		return nil, err
	}
	return j, nil
}

// partitionsOf reads the number of partitions off a job's input.
func partitionsOf(in jetstream.StreamConfig) (int, error) {
	found := destinationPartitions.FindStringSubmatch(Destination(in))
	if found == nil {
		return 0, fmt.Errorf("pipeline: NATS stream %s has no partitions: it is not a stage's", in.Name)
	}
	n, err := strconv.Atoi(found[1])
	if err != nil || n < 1 || n > MaxPartitions {
		return 0, fmt.Errorf("pipeline: NATS stream %s has %s partitions, want 1 to %d", in.Name, found[1], MaxPartitions)
	}
	return n, nil
}

// PartitionsOf is how many partitions the input of a job has; 0 where there is
// no input.
func PartitionsOf(ctx context.Context, js jetstream.JetStream, job string) (int, error) {
	in, err := js.Stream(ctx, wire.InputStream(job))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("pipeline: NATS stream %s: %w", wire.InputStream(job), err)
	}
	return partitionsOf(in.CachedInfo().Config)
}

// PatternOf is the pattern of a job's input, as its NATS stream has it. The zero
// one stands for an input that no stage of ours has made.
func PatternOf(in jetstream.StreamConfig) wire.Pattern {
	if len(in.Subjects) != 1 {
		return wire.Pattern{}
	}
	p, _ := wire.ParsePattern(in.Subjects[0])
	return p
}

// Record is a partition's last record; the zero one if there is none.
func (j *Job) Record(ctx context.Context, p int) (wire.Record, error) {
	if p < 0 || p >= j.Partitions {
		return wire.Record{}, fmt.Errorf("pipeline: partition %d, job %q has 0 to %d", p, j.Name, j.Partitions-1)
	}
	r, _, err := ReadRecord(ctx, j.Out, j.Name, p)
	return r, err
}

// ReadRecord returns a partition's last record in a job's output, and its
// sequence number there, 0 if there is none.
func ReadRecord(ctx context.Context, out jetstream.Stream, job string, p int) (wire.Record, uint64, error) {
	subject := wire.OutputSubject(job, p)
	raw, err := out.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return wire.Record{}, 0, nil
	}
	if err != nil {
		return wire.Record{}, 0, fmt.Errorf("pipeline: position on %s: %w", subject, err)
	}
	r, err := wire.ParseRecord(raw.Header, raw.Subject, raw.Sequence)
	return r, raw.Sequence, err
}

// Destination is what a NATS stream makes of the subjects it takes: for a job's
// input, how many partitions there are.
func Destination(c jetstream.StreamConfig) string {
	if c.SubjectTransform == nil {
		return "none"
	}
	return c.SubjectTransform.Destination
}

// Repartitioned is what Destination becomes with another number of partitions.
func Repartitioned(destination string, partitions int) string {
	at := destinationPartitions.FindStringSubmatchIndex(destination)
	if at == nil {
		return destination
	}
	return destination[:at[2]] + strconv.Itoa(partitions) + destination[at[3]:]
}
