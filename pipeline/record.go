package pipeline

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// position is how far a partition has come.
type position struct {
	inSeq uint64 // last input message fully answered
	ahead uint64 // predictions published beyond it
	outs  uint64 // predictions published in all
}

// mark is a state that can be checked: after the input message seq, stored at
// time, it has that digest. It may lie behind a position in the middle of a
// batch.
type mark struct {
	seq     uint64
	time    int64 // ns
	digest  digest
	version uint64 // of the state's form that the digest is of; 0 = written before records said so
}

// record is the last message on a partition's output subject, without its
// predictions: everything the next owner needs to know.
type record struct {
	position
	kind    string
	epoch   uint64 // rises with every claim
	worker  string
	created string // identity of the input NATS stream: when it was created
	mark    mark
	rests   place  // last input message that predictions rest on, in the middle of a split commit: it lies behind mark's
	snap    string // name of the snapshot, empty without one
	snapSeq uint64 // last input message in it

	losses  string // see loss.go
	emptyTo uint64 // the partition has no input behind inSeq up to this message; 0 = not known

	arithmetic string // what computed the states, where it is not the canonical one
	identity          // of the model; empty = written before records said so
}

// place is an input message: its number, and when the server stored it. Two
// histories of one input may give a number twice; they do not give it the same
// time.
type place struct {
	seq    uint64
	stored int64 // ns
}

// errRecord is a record that cannot be read: asking again does not help.
var errRecord = errors.New("something else publishes there, or it was changed")

// wayOut says what to do about a message on an output subject that cannot be
// read. One that is foreign may be deleted: the record before it is the last
// one again.
func wayOut(subject string, seq uint64) string {
	job, _, _ := strings.Cut(subject, ".")
	return fmt.Sprintf("look at it (nats stream get %s %d): if it is not this job's, keep its sender off and take out this one message (nats stream rmm %s %d), and the record before it counts again; else restore the job's streams, or begin a new job", outputStream(job), seq, outputStream(job), seq)
}

func (r *record) header() wireHeader {
	u := func(v uint64) []string { return []string{strconv.FormatUint(v, 10)} }
	h := wireHeader{
		headerKind: {r.kind}, headerEpoch: u(r.epoch), headerWorker: {r.worker}, headerInCreated: {r.created},
		headerInSeq: u(r.inSeq), headerAhead: u(r.ahead), headerOuts: u(r.outs),
	}
	if r.mark.seq > 0 {
		h[headerDigest] = []string{r.mark.digest.String()}
		h[headerDigestSeq] = u(r.mark.seq)
		h[headerInTime] = []string{strconv.FormatInt(r.mark.time, 10)}
		if r.mark.version > 0 {
			h[headerVersion] = u(r.mark.version)
		}
	}
	if r.rests.seq > 0 {
		h[headerRests], h[headerRestsTime] = u(r.rests.seq), []string{strconv.FormatInt(r.rests.stored, 10)}
	}
	if r.snap != "" {
		h[headerSnap], h[headerSnapSeq] = []string{r.snap}, u(r.snapSeq)
	}
	if r.emptyTo > 0 {
		h[headerEmptyTo] = u(r.emptyTo)
	}
	for name, text := range map[string]string{headerArith: r.arithmetic, headerNetwork: r.network, headerReadout: r.readout, headerLosses: r.losses} {
		if text != "" {
			h[name] = []string{text}
		}
	}
	return h
}

// parseRecord reads and checks a record: the headers of message seq on a
// subject.
func parseRecord(h wireHeader, subject string, seq uint64) (record, error) {
	r := record{
		kind: headerValue(h, headerKind), worker: headerValue(h, headerWorker), created: headerValue(h, headerInCreated), snap: headerValue(h, headerSnap), losses: headerValue(h, headerLosses),
		arithmetic: headerValue(h, headerArith), identity: identity{headerValue(h, headerNetwork), headerValue(h, headerReadout)},
	}
	var err error
	u := func(key string, v *uint64) {
		if err == nil {
			if *v, err = strconv.ParseUint(headerValue(h, key), 10, 64); err != nil {
				err = fmt.Errorf("header %s is %q, want a number", key, headerValue(h, key))
			}
		}
	}
	u(headerEpoch, &r.epoch)
	u(headerInSeq, &r.inSeq)
	u(headerAhead, &r.ahead)
	u(headerOuts, &r.outs)
	if headerValue(h, headerDigestSeq) != "" {
		u(headerDigestSeq, &r.mark.seq)
		var at uint64
		u(headerInTime, &at)
		r.mark.time = int64(at)
		if headerValue(h, headerVersion) != "" {
			u(headerVersion, &r.mark.version)
		}
		if d, derr := parseDigest(headerValue(h, headerDigest)); derr != nil && err == nil {
			err = fmt.Errorf("header %s is %q: %w", headerDigest, headerValue(h, headerDigest), derr)
		} else {
			r.mark.digest = d
		}
	}
	if headerValue(h, headerRests) != "" {
		var at uint64
		u(headerRests, &r.rests.seq)
		u(headerRestsTime, &at)
		r.rests.stored = int64(at)
	}
	if headerValue(h, headerEmptyTo) != "" {
		u(headerEmptyTo, &r.emptyTo)
	}
	if r.snap != "" {
		u(headerSnapSeq, &r.snapSeq)
	}
	switch {
	case err != nil:
	case r.kind != kindClaim && r.kind != kindCommit && r.kind != kindReleased:
		err = fmt.Errorf("header %s is %q", headerKind, r.kind)
	case r.mark.seq > r.inSeq || r.snapSeq > r.mark.seq:
		err = fmt.Errorf("it names a snapshot after message %d, a digest after %d and a position of %d", r.snapSeq, r.mark.seq, r.inSeq)
	case r.rests.seq > 0 && r.rests.seq < r.inSeq:
		err = fmt.Errorf("it names a position of %d, whose predictions rest on nothing behind message %d", r.inSeq, r.rests.seq)
	}
	if err != nil {
		return record{}, fmt.Errorf("pipeline: message %d on %s: %w: %w: %s", seq, subject, err, errRecord, wayOut(subject, seq))
	}
	return r, nil
}

// continues reports whether an engine of that arithmetic may go on from the
// record. What lies behind a snapshot is replayed, and comes out as it was in
// the same arithmetic only. Where nothing was answered nothing is replayed; an
// imported snapshot is checked by itself (shape).
func (r *record) continues(arithmetic string) bool {
	return r.inSeq == 0 || r.arithmetic == arithmetic
}

func createdText(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
