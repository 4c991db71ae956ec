package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Job is an existing job on a server.
type Job struct {
	Name       string
	Partitions int
	Pattern    wire.Pattern // pattern of its keys; zero if no stage has created its input
	Source     wire.Source  // the input that it reads, if the input is another job's
	JS         jetstream.JetStream
	In, Out    jetstream.Stream
}

// InputJob returns the job with the input of this job: usually the job itself.
func (j *Job) InputJob() string { return cmp.Or(j.Source.Job, j.Name) }

// Input returns the job's input, for requests over the link.
func (j *Job) Input(link *Link) *Input {
	return &Input{Stream: j.In, Link: link, Job: j.InputJob(), From: j.Source.From, Pattern: j.Pattern}
}

var destinationPartitions = regexp.MustCompile(`\{\{partition\((\d+)(,\d+)*\)\}\}`)

// Open finds a job by name, or returns wire.ErrNoJob.
func Open(ctx context.Context, js jetstream.JetStream, name string) (*Job, error) {
	j := &Job{Name: name, JS: js}
	var err error
	if j.Out, err = js.Stream(ctx, wire.OutputStream(name)); err == nil {
		if j.Source, err = sourceOf(ctx, j.Out, name); err == nil {
			j.In, err = js.Stream(ctx, wire.InputStream(j.InputJob()))
		}
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) && j.Source.Job != "" {
		return nil, fmt.Errorf("pipeline: job %q reads the input of job %q, and that is gone: there is no NATS stream %s: %s", name, j.Source.Job, wire.InputStream(j.Source.Job), LostTrack(j.Source.Job))
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if lost := j.checkLost(ctx); lost != nil {
			return nil, lost
		}
		return nil, fmt.Errorf("pipeline: %w %q: has the stage run with this job name?", wire.ErrNoJob, name)
	}
	if err != nil {
		return nil, fmt.Errorf("pipeline: job %q: %w", name, err)
	}
	j.Pattern = PatternOf(j.In.CachedInfo().Config)
	if j.Partitions, err = PartitionsIn(j.In.CachedInfo().Config); err != nil {
		return nil, err
	}
	return j, nil
}

// checkLost reports the loss of the input or output of a begun job.
func (j *Job) checkLost(ctx context.Context) error {
	if j.Out != nil { // without an input
		if _, seq, err := ReadEntry(ctx, j.Out, j.Name); err == nil && seq > 0 {
			return LostInput(j.Name)
		}
		return nil
	}
	if _, err := j.JS.Stream(ctx, wire.InputStream(j.Name)); err != nil {
		return nil // missing, or unknown
	}
	if lost := CheckOutput(ctx, j.JS, j.Name, j.Name); errors.Is(lost, ErrRecordLost) {
		return lost
	}
	return nil
}

// PartitionsIn reads the number of partitions off a job's input.
func PartitionsIn(in jetstream.StreamConfig) (int, error) {
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

// PartitionsOf returns the number of partitions of a job's input; 0 without an input.
func PartitionsOf(ctx context.Context, js jetstream.JetStream, job string) (int, error) {
	in, err := js.Stream(ctx, wire.InputStream(job))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("pipeline: NATS stream %s: %w", wire.InputStream(job), err)
	}
	return PartitionsIn(in.CachedInfo().Config)
}

// PatternOf returns the pattern of a job's input, from the NATS stream. Zero means an
// input not created by a stage.
func PatternOf(in jetstream.StreamConfig) wire.Pattern {
	if len(in.Subjects) == 1 {
		p, _ := wire.ParsePattern(in.Subjects[0])
		return p
	}
	ours := slices.DeleteFunc(slices.Clone(in.Subjects), func(s string) bool { return strings.HasPrefix(s, wire.IdlePrefix) })
	p, err := wire.ParsePattern(strings.Join(ours, " "))
	if t := in.SubjectTransform; err != nil || t == nil || t.Source != p.Source() || !sameSubjects(p.Subjects(), in.Subjects) {
		return wire.Pattern{}
	}
	return p
}

// sameSubjects compares subjects in any order.
func sameSubjects(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// Record returns a partition's last record; zero without a record.
func (j *Job) Record(ctx context.Context, p int) (wire.Record, error) {
	if p < 0 || p >= j.Partitions {
		return wire.Record{}, fmt.Errorf("pipeline: partition %d, job %q has 0 to %d", p, j.Name, j.Partitions-1)
	}
	r, _, err := ReadRecord(ctx, j.Out, j.Name, p)
	return r, err
}

// sourceOf returns the source of a job's input, if the input is another job's. An
// unreadable entry counts as a job with an own input; later code reports the error.
func sourceOf(ctx context.Context, out jetstream.Stream, job string) (wire.Source, error) {
	e, _, err := ReadEntry(ctx, out, job)
	if foreign := (*wire.ForeignError)(nil); errors.As(err, &foreign) {
		return wire.Source{}, nil
	}
	return e.Source, err
}

// ReadersOf returns the other jobs that read a job's input, in alphabetical order. A
// job declares its input in its entry, from its first start until its output is
// deleted, even while no worker runs.
func ReadersOf(ctx context.Context, js jetstream.JetStream, job string) ([]string, error) {
	jobs, err := Jobs(ctx, js)
	if err != nil {
		return nil, err
	}
	var readers []string
	for _, name := range jobs {
		out, err := js.Stream(ctx, wire.OutputStream(name))
		if errors.Is(err, jetstream.ErrStreamNotFound) { // deleted meanwhile
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("pipeline: which input job %q reads: %w", name, err)
		}
		e, _, err := ReadEntry(ctx, out, name)
		if err != nil {
			return nil, err
		}
		if e.Source.Job == job {
			readers = append(readers, name)
		}
	}
	return readers, nil
}

// Jobs are the names of the jobs on a server, in alphabetical order.
func Jobs(ctx context.Context, js jetstream.JetStream) ([]string, error) {
	all := js.ListStreams(ctx)
	var names []string
	for info := range all.Info() {
		for _, subject := range info.Config.Subjects {
			if name, ok := strings.CutSuffix(subject, ".out.*"); ok && info.Config.Name == wire.OutputStream(name) {
				names = append(names, name)
			}
		}
	}
	if err := all.Err(); err != nil {
		return nil, fmt.Errorf("pipeline: jobs not listed: %w", err)
	}
	slices.Sort(names)
	return names, nil
}

// ReadRecord returns a partition's last record in a job's output, and the record's
// sequence number, 0 without a record.
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

// Destination returns a NATS stream's subject mapping: for a job's input, the mapping
// contains the number of partitions.
func Destination(c jetstream.StreamConfig) string {
	if c.SubjectTransform == nil {
		return "none"
	}
	return c.SubjectTransform.Destination
}

// Repartitioned returns a Destination with another number of partitions.
func Repartitioned(destination string, partitions int) string {
	at := destinationPartitions.FindStringSubmatchIndex(destination)
	if at == nil {
		return destination
	}
	return destination[:at[2]] + strconv.Itoa(partitions) + destination[at[3]:]
}
