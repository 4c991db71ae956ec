package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
)

// ReadEntry returns a job's entry and the entry's sequence number, 0 without an entry.
func ReadEntry(ctx context.Context, out jetstream.Stream, job string) (wire.Entry, uint64, error) {
	subject := wire.EntrySubject(job)
	raw, err := out.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return wire.Entry{}, 0, nil
	}
	if err != nil {
		return wire.Entry{}, 0, fmt.Errorf("pipeline: which model job %q runs: %w", job, err)
	}
	e, err := wire.ParseEntry(raw.Header, raw.Data, subject, raw.Sequence)
	return e, raw.Sequence, err
}

// WriteEntry publishes a job's entry as the successor of message expect, 0 = none, and
// returns the number of its message. If the answer is lost, the stored entry decides.
// OvertakenBy recognizes the error for an entry that another process wrote meanwhile.
func WriteEntry(ctx context.Context, js jetstream.JetStream, out jetstream.Stream, e *wire.Entry, job string, expect uint64) (seq uint64, err error) {
	body, err := wire.NoPredictions(e.Meta)
	if err != nil {
		return 0, err
	}
	m := &nats.Msg{Subject: wire.EntrySubject(job), Data: body, Header: e.Header()}
	m.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(expect, 10)}
	ack, err := js.PublishMsg(ctx, m, jetstream.WithRetryAttempts(0))
	if err == nil {
		return ack.Sequence, nil
	}
	now, seq, readErr := ReadEntry(ctx, out, job)
	var refused *jetstream.APIError
	switch {
	case OvertakenBy(err):
		return 0, err
	case errors.As(err, &refused), errors.Is(err, nats.ErrPermissionViolation), readErr == nil && seq == expect:
		return 0, fmt.Errorf("the change was not stored: %w", err)
	case readErr == nil && seq > expect && maps.EqualFunc(now.Header(), e.Header(), slices.Equal[[]string]):
		return seq, nil
	}
	return 0, fmt.Errorf("the change may be stored: %w; check the job before you repeat the command", err)
}

// AgreeEntry returns a job's entry, and replaces it with own if there is no
// contradiction: if the job has no entry, or the entry names no readout. If a begun job has
// lost its entry, AgreeEntry writes none (ErrRecordLost): the output may have been lost since
// the worker's first check.
func AgreeEntry(ctx context.Context, own *wire.Entry, js jetstream.JetStream, out jetstream.Stream, job string) (wire.Entry, error) {
	for {
		e, seq, err := ReadEntry(ctx, out, job)
		if err == nil && seq == 0 {
			e, err = recordedEntry(ctx, own, out, job)
		}
		if err != nil || own.Differs(e.Identity) != "" || seq > 0 && (own.Readout == "" || e.Readout != "") {
			return e, err
		}
		own.Resize = e.Resize
		if seq > 0 {
			own.Source = e.Source
		} else if err := CheckOutput(ctx, js, job, cmp.Or(own.Source.Job, job)); err != nil {
			return e, err
		}
		if _, err := WriteEntry(ctx, js, out, own, job, seq); !OvertakenBy(err) {
			return *own, err
		}
	}
}

// recordedEntry returns the model identity in the partitions' records of a job without
// an entry: a record compatible with own if possible, otherwise a contradicting record,
// or nothing. If both exist, partitions of the other model are stopped at the claim.
func recordedEntry(ctx context.Context, own *wire.Entry, out jetstream.Stream, job string) (other wire.Entry, err error) {
	info, err := out.Info(ctx, jetstream.WithSubjectFilter(job+".out.*"))
	if err != nil {
		return wire.Entry{}, fmt.Errorf("pipeline: records not listed: %w", err)
	}
	for subject := range info.State.Subjects {
		e, err := recordedOn(ctx, out, subject)
		if err != nil {
			return wire.Entry{}, err
		}
		if e.Network == "" {
			continue
		}
		if own.Differs(e.Identity) == "" {
			return e, nil
		}
		other = e
	}
	return other, nil
}

// recordedOn returns the identity in a partition's record. An unreadable record is
// skipped: the claim of the partition reports the error.
func recordedOn(ctx context.Context, out jetstream.Stream, subject string) (e wire.Entry, err error) {
	raw, err := out.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return e, nil
	}
	if err != nil {
		return e, fmt.Errorf("pipeline: record on %s: %w", subject, err)
	}
	rec, wrong := wire.ParseRecord(raw.Header, raw.Subject, raw.Sequence)
	if wrong != nil {
		return e, nil
	}
	return wire.RecordEntry(rec, raw.Data), nil
}
