package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/natsclient"
	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// Need is the first input message that a job or a person still needs.
type Need struct {
	Job       string `json:"job"`
	Partition int    `json:"partition"` // of the job; -1 = not a partition
	Message   uint64 `json:"message"`
}

// Trim is a request to remove input not needed by any reading job.
type Trim struct {
	Job     string
	Keep    time.Duration // younger messages stay
	Bytes   uint64        // the newest messages of about this size stay; 0 = only by age
	Without []string      // jobs whose needs are ignored
	Also    []Need        // additional needs, not of jobs
	Dry     bool          // only find out
}

// Trimmed is the result of Trim.Run.
type Trimmed struct {
	Input   string `json:"input"`   // the NATS stream
	First   uint64 `json:"first"`   // first message before
	Last    uint64 `json:"last"`    // last message
	Begins  uint64 `json:"begins"`  // the first message still needed, or too young
	Removed uint64 `json:"removed"` // number of removed messages; of a dry run, about
	Bytes   uint64 `json:"bytes"`   // of the removed messages, about
	Young   bool   `json:"young"`   // Begins is needed by no job, but too young
	Needs   []Need `json:"needs"`   // of each job, the partition with the oldest need
}

// The reasons for which an input is not trimmed.
var (
	ErrNotOwner = errors.New("it has no input of its own")
	ErrNoReader = errors.New("it does not read this input")
	ErrHistory  = errors.New("nothing is removed: this job has read another input than this one, which a new job can still read; if the job will not continue, delete its NATS streams, or ignore the job")
)

// Run removes input. A job needs the input after the stored state of each of its
// partitions: with this input, killed workers return to the same states, and no
// prediction is flagged. The partitions' records contain the position, even while no
// worker runs. So a job without workers still needs its input, and so does a job
// without any begun partition. Keep covers cases outside the records: a lost snapshot,
// an output that went back.
func (t Trim) Run(ctx context.Context, js jetstream.JetStream) (Trimmed, error) {
	own, err := Open(ctx, js, t.Job)
	if err != nil {
		return Trimmed{}, err
	}
	if own.Source.Job != "" {
		return Trimmed{}, fmt.Errorf("pipeline: job %q reads the input of job %q: %w: trim that of job %q", t.Job, own.Source.Job, ErrNotOwner, own.Source.Job)
	}
	d, in, err := t.findBegin(ctx, js, own.In)
	if err != nil || t.Dry || d.Begins == d.First {
		return d, err
	}
	if err := own.In.Purge(ctx, jetstream.WithPurgeSequence(d.Begins)); err != nil {
		return d, fmt.Errorf("pipeline: NATS stream %s: input is not removed: %w", d.Input, err)
	}
	now, err := own.In.Info(ctx)
	if err == nil && now.State.LastSeq == in.LastSeq { // otherwise the difference is not the removed messages
		d.Removed, d.Bytes = in.Msgs-min(in.Msgs, now.State.Msgs), in.Bytes-min(in.Bytes, now.State.Bytes)
	}
	return d, nil
}

// findBegin finds the first message of the input still needed, or too young.
func (t Trim) findBegin(ctx context.Context, js jetstream.JetStream, input jetstream.Stream) (d Trimmed, in jetstream.StreamState, err error) {
	info, err := input.Info(ctx)
	if err != nil {
		return d, in, fmt.Errorf("pipeline: NATS stream %s: %w", wire.InputStream(t.Job), err)
	}
	in = info.State
	d = Trimmed{Input: info.Config.Name, First: in.FirstSeq, Last: in.LastSeq, Needs: slices.Clone(t.Also)}
	jobs, err := t.listJobs(ctx, js)
	if err != nil {
		return d, in, err
	}
	for _, name := range jobs {
		need, err := needOf(ctx, js, name)
		if err != nil {
			return d, in, err
		}
		d.Needs = append(d.Needs, need)
	}
	slices.SortStableFunc(d.Needs, func(a, b Need) int { return cmp.Compare(a.Message, b.Message) })
	young, err := FirstSince(ctx, js, in, d.Input, info.TimeStamp.Add(-t.Keep))
	if err != nil {
		return d, in, err
	}
	d.Begins = min(young, in.LastSeq+1)
	if t.Bytes > 0 {
		d.Begins = min(d.Begins, newestFrom(in, t.Bytes))
	}
	for _, n := range d.Needs {
		d.Begins = min(d.Begins, n.Message)
	}
	d.Begins = max(d.Begins, in.FirstSeq)
	d.Young = d.Begins <= in.LastSeq && !slices.ContainsFunc(d.Needs, func(n Need) bool { return n.Message <= d.Begins })
	if in.LastSeq >= in.FirstSeq && in.Msgs > 0 {
		share := float64(d.Begins-in.FirstSeq) / float64(in.LastSeq-in.FirstSeq+1)
		d.Removed, d.Bytes = uint64(share*float64(in.Msgs)+.5), uint64(share*float64(in.Bytes))
	}
	return d, in, nil
}

// listJobs returns the jobs with a possible need for the input.
func (t Trim) listJobs(ctx context.Context, js jetstream.JetStream) ([]string, error) {
	readers, err := ReadersOf(ctx, js, t.Job)
	if err != nil {
		return nil, err
	}
	jobs := append([]string{t.Job}, readers...)
	for _, name := range t.Without {
		if !slices.Contains(jobs, name) {
			return nil, fmt.Errorf("pipeline: job %q would need nothing of the input of job %q: %w: those that do are %s", name, t.Job, ErrNoReader, strings.Join(jobs, ", "))
		}
	}
	return slices.DeleteFunc(jobs, func(name string) bool { return slices.Contains(t.Without, name) }), nil
}

// needOf returns the oldest message needed by a job.
func needOf(ctx context.Context, js jetstream.JetStream, name string) (Need, error) {
	job, err := Open(ctx, js, name)
	if err != nil {
		return Need{}, err
	}
	e, _, err := ReadEntry(ctx, job.Out, name)
	if err != nil {
		return Need{}, err
	}
	if e.Resize.UnderWay() {
		return Need{}, fmt.Errorf("pipeline: %w", &wire.ChangeError{Job: name, Change: e.Resize})
	}
	least := Need{Job: name}
	for p := range job.Partitions {
		r, err := job.Record(ctx, p)
		if err == nil {
			err = job.noteReads(ctx, p, &r)
		}
		at := neededFrom(&r)
		if err == nil && at > r.InSeq+1 {
			at, err = job.oldestUnread(ctx, p, &r, at)
		}
		if err != nil {
			return least, err
		}
		if at = max(at, job.Source.From, 1); p == 0 || at < least.Message {
			least.Partition, least.Message = p, at
		}
	}
	return least, nil
}

// noteReads requires that a partition's record belongs to the existing input, as a
// claim does: for another input, or an input that went back, the record does not give
// the needed position.
func (j *Job) noteReads(ctx context.Context, part int, r *wire.Record) error {
	if r.Created == "" && j.Source.Job == "" {
		return nil
	}
	other := func(format string, args ...any) error {
		return fmt.Errorf("pipeline: job %q: %s: %w", j.Name, fmt.Sprintf(format, args...), ErrHistory)
	}
	try, cancel := context.WithTimeout(ctx, CommitTimeout)
	defer cancel()
	info, err := j.In.Info(try) // read after the record: it covers the record's position
	if err != nil {
		return fmt.Errorf("pipeline: NATS stream %s: %w", wire.InputStream(j.InputJob()), err)
	}
	name, created := info.Config.Name, wire.CreatedText(info.Created)
	switch {
	case j.Source.Job != "" && j.Source.Created != created:
		return other("%s was created %s, and the job reads one created %s", name, created, j.Source.Created)
	case r.Created != "" && r.Created != created:
		return other("%s was created %s, but the record of partition %d is of one created %s", name, created, part, r.Created)
	case info.State.LastSeq < r.InSeq:
		return other("%s ends at message %d, but partition %d has read message %d", name, info.State.LastSeq, part, r.InSeq)
	case r.Mark.Seq == 0 || r.Mark.Seq < info.State.FirstSeq:
		return nil
	}
	m, err := j.In.GetMsg(try, r.Mark.Seq)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound): // removed, or before the new beginning
		return nil
	case err != nil:
		return fmt.Errorf("pipeline: message %d of %s: %w", r.Mark.Seq, name, err)
	case m.Time.UnixNano() != r.Mark.Time:
		return other("message %d of %s was stored %s, but partition %d has read one stored %s (a restored backup? a power failure?)",
			r.Mark.Seq, name, wire.CreatedText(m.Time), part, wire.CreatedText(time.Unix(0, r.Mark.Time)))
	}
	return nil
}

// oldestUnread returns at, or the partition's first message after its last used
// message, if earlier: a record's empty range is not valid for an input that has since
// lost its end, as in a power failure, and has received other messages there. The end
// of the range has no time to detect the change, so the input is asked.
func (j *Job) oldestUnread(ctx context.Context, part int, r *wire.Record, at uint64) (uint64, error) {
	next, err := j.Input(nil).Next(ctx, part, r.InSeq)
	if err != nil {
		return 0, fmt.Errorf("pipeline: input of partition %d of job %q: %w", part, j.Name, err)
	}
	if next.Seq > 0 {
		at = min(at, next.Seq)
	}
	return at, nil
}

// neededFrom returns the first message that a partition needs by the record: the
// message after its stored state. If the stored state is the last state, the record may
// contain an empty range, which is not needed.
func neededFrom(r *wire.Record) uint64 {
	if r.SnapSeq == r.InSeq && r.Ahead == 0 {
		return max(r.InSeq, r.EmptyTo) + 1
	}
	return r.SnapSeq + 1
}

// newestFrom returns the first of the newest messages with a total size of about keep
// bytes, by their mean size.
func newestFrom(in jetstream.StreamState, keep uint64) uint64 {
	if in.Bytes <= keep {
		return in.FirstSeq
	}
	return max(in.FirstSeq, in.LastSeq+1-uint64(float64(in.Msgs)*float64(keep)/float64(in.Bytes)))
}

// RemoveOldest removes the oldest messages of a job's output or dead letters until about
// keep bytes remain, and returns their number. The last message of each subject stays:
// in the output it is the position of a partition.
func RemoveOldest(ctx context.Context, js jetstream.JetStream, stream string, keep uint64) (removed uint64, err error) {
	failed := func(err error) (uint64, error) {
		return 0, fmt.Errorf("pipeline: NATS stream %s: old messages are not removed: %w", stream, err)
	}
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return failed(err)
	}
	before, err := s.Info(ctx, jetstream.WithSubjectFilter(">"))
	if err != nil {
		return failed(err)
	}
	first := newestFrom(before.State, keep)
	for subject := range before.State.Subjects {
		last, err := s.GetLastMsgForSubject(ctx, subject)
		if err == nil {
			err = natsclient.PurgeBefore(ctx, s, subject, min(first, last.Sequence))
		}
		if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			return failed(err)
		}
	}
	after, err := s.Info(ctx)
	if err != nil {
		return failed(err)
	}
	return before.State.Msgs + after.State.LastSeq - before.State.LastSeq - after.State.Msgs, nil
}
