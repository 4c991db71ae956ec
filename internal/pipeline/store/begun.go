package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// A server may lose the messages of a NATS stream and keep its configuration: in a
// cluster, a stream with one replica whose server lost its disk is recreated, empty and
// with the old creation time. So the configuration of each of a job's NATS streams gets
// a mark when the job has begun. A job with a mark and without an output has lost the
// output, and does not begin a second time.

// begunMark is the key of the mark in a NATS stream's metadata. Its value is the
// job's name: the configuration may have been copied for another job.
const begunMark = "eusn-begun"

// jobStreams are the NATS streams with the mark. own: the job has its own input.
func jobStreams(job string, own bool) []string {
	names := []string{wire.OutputStream(job), wire.SnapshotStream(job), wire.RowStream(job), wire.DeadLetterStream(job), wire.MemberStream(job)}
	if own {
		names = append(names, wire.InputStream(job))
	}
	return names
}

// MarkBegun marks the NATS streams of a job with an entry. If a stream cannot be
// marked, the remaining marks suffice.
func MarkBegun(ctx context.Context, js jetstream.JetStream, link *Link, job string, own bool, log *slog.Logger) {
	var unmarked []string
	var cause error
	for _, name := range jobStreams(job, own) {
		if err := markStream(ctx, js, link, name, job); err != nil && ctx.Err() == nil {
			unmarked, cause = append(unmarked, name), err
		}
	}
	if len(unmarked) > 0 {
		log.Info("some NATS streams of the job are not marked as begun: if the server loses their data, the next start may not detect the loss. Start one worker with the permissions of setup, or set the mark once as an administrator: nats stream edit, with --metadata "+begunMark+"="+job+" (docs/nats.md, Permissions)", "streams", strings.Join(unmarked, ", "), "err", cause)
	}
}

func markStream(ctx context.Context, js jetstream.JetStream, link *Link, name, job string) error {
	try, cancel := link.Attempt(ctx)
	defer cancel()
	s, err := js.Stream(try, name)
	if err != nil {
		return err
	}
	cfg := s.CachedInfo().Config
	if cfg.Metadata[begunMark] == job {
		return nil
	}
	if err := MayPublish(try, js.Conn(), "$JS.API.STREAM.UPDATE."+name); err != nil {
		return err
	}
	cfg.Metadata = ownMetadata(cfg)
	cfg.Metadata[begunMark] = job
	_, err = js.UpdateStream(try, cfg)
	return err
}

// MayPublish returns an error if the server refuses this connection to publish on a
// subject. It publishes an empty message on the subject, without a reply: a refused
// request is never answered.
func MayPublish(ctx context.Context, nc *nats.Conn, subject string) error {
	if err := errors.Join(nc.Publish(subject, nil), nc.FlushWithContext(ctx)); err != nil {
		return err
	}
	if last := nc.LastError(); errors.Is(last, nats.ErrPermissionViolation) && strings.Contains(last.Error(), `"`+subject+`"`) {
		return last
	}
	return nil
}

// CheckOutput returns ErrRecordLost if a job has begun and the output is gone or holds
// neither the job's entry nor a record. CheckOutput changes nothing. inputJob is the
// job whose input the job reads.
func CheckOutput(ctx context.Context, js jetstream.JetStream, job, inputJob string) error {
	if missing, err := missingOutput(ctx, js, job); err != nil || missing == "" {
		return err
	}
	traces, err := jobTraces(ctx, js, job, job == inputJob)
	if err != nil || len(traces) == 0 {
		return err
	}
	// The entry is older than the traces: another worker may have begun the job meanwhile.
	missing, err := missingOutput(ctx, js, job)
	if err != nil || missing == "" {
		return err
	}
	return lostOutput(job, inputJob, missing, strings.Join(traces, ", "))
}

// missingOutput describes an output with neither the job's entry nor a record; empty = the
// output has one.
func missingOutput(ctx context.Context, js jetstream.JetStream, job string) (missing string, err error) {
	out, err := js.Stream(ctx, wire.OutputStream(job))
	if err == nil {
		var seq uint64
		if _, seq, err = ReadEntry(ctx, out, job); err != nil || seq > 0 {
			if errors.As(err, new(*wire.ForeignError)) {
				err = nil // the output exists; later code reports other errors
			}
			return "", err
		}
		var info *jetstream.StreamInfo
		if info, err = out.Info(ctx, jetstream.WithSubjectFilter(job+".out.*")); err == nil && len(info.State.Subjects) > 0 {
			return "", nil // the records show it
		}
	}
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return outputGone, nil
	case err != nil:
		return "", fmt.Errorf("pipeline: NATS stream %s: %w", wire.OutputStream(job), err)
	}
	return outputEmpty, nil
}

// jobTraces lists the evidence of a begun job.
func jobTraces(ctx context.Context, js jetstream.JetStream, job string, own bool) (traces []string, err error) {
	for _, name := range jobStreams(job, own) {
		s, err := js.Stream(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("pipeline: NATS stream %s: %w", name, err)
		}
		info := s.CachedInfo()
		switch {
		case info.Config.Metadata[begunMark] == job:
			traces = append(traces, name+" is marked as begun")
		case name == wire.DeadLetterStream(job) && info.State.LastSeq > 0:
			traces = append(traces, name+" has had dead letters")
		case name == wire.RowStream(job) && info.State.Msgs > 0:
			if rows, err := s.Info(ctx, jetstream.WithSubjectFilter(wire.AllRowSubjects(job))); err != nil {
				return nil, fmt.Errorf("pipeline: NATS stream %s: %w", name, err)
			} else if delete(rows.State.Subjects, wire.ProbeSubject(job)); len(rows.State.Subjects) > 0 {
				traces = append(traces, name+" holds state rows")
			}
		}
	}
	return traces, nil
}
