package wire

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Position is how far a partition has come.
type Position struct {
	InSeq uint64 // last input message fully answered
	Ahead uint64 // published predictions after the position
	Outs  uint64 // predictions published in all
}

// Mark is a verifiable state: after input message Seq, stored at Time, the state has
// this digest. It may precede a position in the middle of a batch.
type Mark struct {
	Seq    uint64
	Time   int64 // ns
	Digest Digest
}

// Record is the last message on a partition's output subject, without its predictions:
// everything the next owner needs.
type Record struct {
	Position
	Kind    string
	Epoch   uint64 // rises with every claim
	Worker  string
	Created string // identity of the input NATS stream: its creation time
	Mark    Mark
	Rests   Place  // last input message that predictions depend on, in the middle of a split commit: it follows the mark's message
	Snap    string // name of the snapshot, empty without a snapshot
	SnapSeq uint64 // last input message in the snapshot

	Losses  string // see package state, Losses
	EmptyTo uint64 // the partition has no input after InSeq up to this message; 0 = unknown

	Arithmetic string   // arithmetic of the states, unless canonical
	Identity            // of the model
	Generation uint64   // how often the job's number of partitions had changed; see Resize
	Promoted   Promoted // how far the partition follows the job's promotions
}

// Place is an input message: its number, and the time at which the server stored it.
// Two histories of one input may reuse a number, but never with the same time.
type Place struct {
	Seq    uint64
	Stored int64 // ns
}

// ErrRecord reports an unreadable record: a retry does not help.
var ErrRecord = errors.New("another program publishes there, or the message was changed")

// unreadable is an ErrRecord with its own advice.
type unreadable struct{ error }

func (unreadable) Is(target error) bool { return target == ErrRecord }

func (e unreadable) Unwrap() error { return e.error }

// wayOut is the remedy for an unreadable message on an output subject. A foreign
// message may be deleted: the previous record is then the last.
func wayOut(subject string, seq uint64) string {
	job, _, _ := strings.Cut(subject, ".")
	return fmt.Sprintf("look at it (nats stream get %s %d): if it is not from this job, stop its sender and remove only this message (nats stream rmm %s %d), and the record before it is valid again; otherwise restore the job's NATS streams, or start a new job", OutputStream(job), seq, OutputStream(job), seq)
}

// Header returns the record in its stored form.
func (r *Record) Header() Header {
	u := func(v uint64) []string { return []string{strconv.FormatUint(v, 10)} }
	h := Header{
		HeaderKind: {r.Kind}, HeaderEpoch: u(r.Epoch), HeaderWorker: {r.Worker}, HeaderInCreated: {r.Created},
		HeaderInSeq: u(r.InSeq), HeaderAhead: u(r.Ahead), HeaderOuts: u(r.Outs),
	}
	if r.Mark.Seq > 0 {
		h[HeaderDigest] = []string{r.Mark.Digest.String()}
		h[HeaderDigestSeq] = u(r.Mark.Seq)
		h[HeaderInTime] = []string{strconv.FormatInt(r.Mark.Time, 10)}
		h[HeaderVersion] = u(StateVersion)
	}
	if r.Generation > 0 {
		h[HeaderGen] = u(r.Generation)
	}
	if r.Promoted.Known > 0 {
		h[HeaderPromoted] = []string{r.Promoted.joinText()}
	}
	if r.Rests.Seq > 0 {
		h[HeaderRests], h[HeaderRestsTime] = u(r.Rests.Seq), []string{strconv.FormatInt(r.Rests.Stored, 10)}
	}
	if r.Snap != "" {
		h[HeaderSnap], h[HeaderSnapSeq] = []string{r.Snap}, u(r.SnapSeq)
	}
	if r.EmptyTo > 0 {
		h[HeaderEmptyTo] = u(r.EmptyTo)
	}
	for name, text := range map[string]string{HeaderArith: r.Arithmetic, HeaderNetwork: r.Network, HeaderReadout: r.Readout, HeaderLosses: r.Losses} {
		if text != "" {
			h[name] = []string{text}
		}
	}
	return h
}

// ParseRecord reads and checks a record: the headers of message seq on a
// subject.
func ParseRecord(h Header, subject string, seq uint64) (Record, error) {
	r := Record{
		Kind: Get(h, HeaderKind), Worker: Get(h, HeaderWorker), Created: Get(h, HeaderInCreated), Snap: Get(h, HeaderSnap), Losses: Get(h, HeaderLosses),
		Arithmetic: Get(h, HeaderArith), Identity: Identity{Get(h, HeaderNetwork), Get(h, HeaderReadout)},
	}
	var err error
	u := func(key string, v *uint64) {
		if err == nil {
			if *v, err = strconv.ParseUint(Get(h, key), 10, 64); err != nil {
				err = fmt.Errorf("header %s is %q, want a number", key, Get(h, key))
			}
		}
	}
	u(HeaderEpoch, &r.Epoch)
	u(HeaderInSeq, &r.InSeq)
	u(HeaderAhead, &r.Ahead)
	u(HeaderOuts, &r.Outs)
	if Get(h, HeaderDigestSeq) != "" {
		u(HeaderDigestSeq, &r.Mark.Seq)
		var at uint64
		u(HeaderInTime, &at)
		r.Mark.Time = int64(at)
		var version uint64
		if u(HeaderVersion, &version); err == nil && version != StateVersion {
			return Record{}, fmt.Errorf("pipeline: the record on %s, message %d: digest: %w", subject, seq, unreadable{&VersionError{version}})
		}
		if d, derr := ParseDigest(Get(h, HeaderDigest)); derr != nil && err == nil {
			err = fmt.Errorf("header %s is %q: %w", HeaderDigest, Get(h, HeaderDigest), derr)
		} else {
			r.Mark.Digest = d
		}
	}
	if Get(h, HeaderGen) != "" {
		u(HeaderGen, &r.Generation)
	}
	if text := Get(h, HeaderPromoted); text != "" && err == nil {
		r.Promoted, err = parsePromoted(text)
	}
	if Get(h, HeaderRests) != "" {
		var at uint64
		u(HeaderRests, &r.Rests.Seq)
		u(HeaderRestsTime, &at)
		r.Rests.Stored = int64(at)
	}
	if Get(h, HeaderEmptyTo) != "" {
		u(HeaderEmptyTo, &r.EmptyTo)
	}
	if r.Snap != "" {
		u(HeaderSnapSeq, &r.SnapSeq)
	}
	if err == nil {
		err = r.checkRecord()
	}
	if err != nil {
		return Record{}, fmt.Errorf("pipeline: message %d on %s: %w: %w: %s", seq, subject, err, ErrRecord, wayOut(subject, seq))
	}
	return r, nil
}

// checkRecord refuses a record that no worker writes.
func (r *Record) checkRecord() error {
	switch {
	case len(r.Network) != HashDigits:
		return fmt.Errorf("header %s is %q, want %d digits", HeaderNetwork, r.Network, HashDigits)
	case r.Kind != KindClaim && r.Kind != KindCommit && r.Kind != KindReleased:
		return fmt.Errorf("header %s is %q", HeaderKind, r.Kind)
	case r.Mark.Seq > r.InSeq || r.SnapSeq > r.Mark.Seq:
		return fmt.Errorf("it names a snapshot after message %d, a digest after %d and a position of %d", r.SnapSeq, r.Mark.Seq, r.InSeq)
	case r.Rests.Seq > 0 && r.Rests.Seq < r.InSeq:
		return fmt.Errorf("its position is %d, but its predictions use input only up to message %d", r.InSeq, r.Rests.Seq)
	}
	return nil
}

// Continues reports whether an engine with the given arithmetic may continue from the
// record. Input after a snapshot is replayed, with the same result only in the same
// arithmetic. Without answers nothing is replayed; an imported snapshot is checked
// separately (state.Shape).
func (r *Record) Continues(arithmetic string) bool {
	return r.InSeq == 0 || r.Arithmetic == arithmetic
}

// CreatedText formats a time as in records and messages.
func CreatedText(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
