package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/pipeline/wire"
	"github.com/nats-io/nats.go/jetstream"
)

// Input asks the server about a job's input.
type Input struct {
	Stream  jetstream.Stream
	Link    *Link        // of stream
	Job     string       // the job with the input; may differ from the job that reads
	From    uint64       // first message for the reader; 0 = the first message of the input
	Pattern wire.Pattern // where producers publish
	Mixed   *Mixed       // nil but while the number of partitions of an input with several copies changes
}

// Name returns the name of the input's NATS stream.
func (r *Input) Name() string { return wire.InputStream(r.Job) }

// Before returns the message after which a reader with all messages up to seq
// continues.
func (r *Input) Before(seq uint64) uint64 { return max(seq+1, r.From) - 1 }

// applyFrom limits the server's answer to the reader's input: input before From is
// treated as removed.
func (r *Input) applyFrom(info *jetstream.StreamInfo) *jetstream.StreamInfo {
	info.State.FirstSeq = max(info.State.FirstSeq, r.From)
	return info
}

// ReadInfo asks for the input's identity and range once.
func (r *Input) ReadInfo(ctx context.Context, opts ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	try, cancel := r.Link.Attempt(ctx)
	defer cancel()
	info, err := r.Stream.Info(try, opts...)
	if err != nil {
		return nil, err
	}
	return r.applyFrom(info), nil
}

// OtherHistory is the remedy for an input that went back.
const OtherHistory = "this partition makes no more predictions from it: restore the store that has these messages. Without a backup, restart: partitions that had read none of the lost messages continue, and a new job can read the input as it is now"

// CheckUnchanged requires, by the input's leader, that an input message is still the
// message that partition part has read: the input may have gone back to an earlier
// state, after a power failure or a restored backup, and may have grown beyond the
// message since. A message removed from the input's beginning cannot be read, and
// passes.
func (r *Input) CheckUnchanged(ctx context.Context, part int, at wire.Place) error {
	if at.Seq == 0 {
		return nil
	}
	name := r.Name()
	info, err := r.Info(ctx, at.Seq)
	switch {
	case err != nil:
		return err
	case info.State.LastSeq < at.Seq:
		return fmt.Errorf("pipeline: %s ends at message %d, but partition %d has read message %d: the input lost its last messages; %s", name, info.State.LastSeq, part, at.Seq, OtherHistory)
	case info.State.FirstSeq > at.Seq:
		return nil
	}
	msg, err := r.readMessage(ctx, at.Seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		if info, err = r.Info(ctx, at.Seq); err == nil && info.State.FirstSeq <= at.Seq { // the message has not expired meanwhile
			err = fmt.Errorf("pipeline: message %d of %s, which partition %d has read, was deleted: restore the store, or start a new job", at.Seq, name, part)
		}
		return err
	}
	if err == nil && msg.Time.UnixNano() != at.Stored {
		err = fmt.Errorf("pipeline: message %d of %s was stored %s, but partition %d has read one stored %s: the input has other messages than before (a restored backup? a power failure?); %s",
			at.Seq, name, wire.CreatedText(msg.Time), part, wire.CreatedText(time.Unix(0, at.Stored)), OtherHistory)
	}
	return err
}

// readMessage asks for an input message until the server answers.
func (r *Input) readMessage(ctx context.Context, seq uint64) (*jetstream.RawStreamMsg, error) {
	for {
		try, cancel := r.Link.Attempt(ctx)
		msg, err := r.Stream.GetMsg(try, seq)
		cancel()
		switch {
		case err == nil, errors.Is(err, jetstream.ErrMsgNotFound):
			return msg, err
		case errors.Is(err, jetstream.ErrStreamNotFound):
			return nil, LostInput(r.Job)
		}
		if err := Pause(ctx, RetryWait); err != nil {
			return nil, err
		}
	}
}

// Info requests the input's identity and range until the server answers, and gives a
// cluster's new leader time to receive message seq.
func (r *Input) Info(ctx context.Context, seq uint64) (*jetstream.StreamInfo, error) {
	var late time.Time
	for {
		info, err := r.ReadInfo(ctx)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil, LostInput(r.Job)
		}
		if err == nil {
			if late.IsZero() {
				late = time.Now().Add(StaleGrace)
			}
			if info.State.LastSeq >= seq || info.Config.Replicas <= 1 || time.Now().After(late) {
				return info, nil
			}
		}
		if err := Pause(ctx, RetryWait); err != nil {
			return nil, err
		}
	}
}

// Overtakes reports whether the input's beginning may reach a message by age before the
// check after the next. The times are the server's.
func Overtakes(info *jetstream.StreamInfo, at wire.Place, within time.Duration) bool {
	age := info.Config.MaxAge
	return age > 0 && info.TimeStamp.Sub(time.Unix(0, at.Stored))+within > age
}

// Next returns the first input message of a partition after number known, from the
// input's leader; number 0 if there is none.
func (r *Input) Next(ctx context.Context, part int, known uint64) (wire.Place, error) {
	if r.Mixed != nil {
		return r.nextMixed(ctx, part, known)
	}
	return r.nextMessage(ctx, part, known)
}

// nextMessage returns the first message after known on a partition's subjects.
func (r *Input) nextMessage(ctx context.Context, part int, known uint64) (wire.Place, error) {
	try, cancel := r.Link.Attempt(ctx)
	defer cancel()
	m, err := r.Stream.GetMsg(try, r.Before(known)+1, jetstream.WithGetMsgSubject(r.Pattern.InputFilter(r.Job, part)))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return wire.Place{}, nil
	}
	if err != nil {
		return wire.Place{}, err
	}
	return wire.Place{Seq: m.Sequence, Stored: m.Time.UnixNano()}, nil
}
