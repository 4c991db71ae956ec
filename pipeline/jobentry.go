package pipeline

import (
	"fmt"
	"strings"

	"github.com/eusn-stream/eusn-stream/codec"
)

// identity is which model a job runs: 32 hexadecimal digits each, of SHA-256;
// empty = not said, as by programs from before identities.
type identity struct {
	network string // of the model without readouts, and the arithmetic: shape.network
	readout string // of the readout that answers
}

// differs names what of two identities is not the same; what one of them does
// not say is no difference.
func (i identity) differs(o identity) string {
	other := func(a, b string) bool { return a != "" && b != "" && a != b }
	switch {
	case other(i.network, o.network):
		return "network"
	case other(i.readout, o.readout):
		return "readout"
	}
	return ""
}

// The list of workers holds their names alone, so these end in the beginnings
// of both.
const nameDigits = 12

// sign adds the identity to a worker's name.
func (i identity) sign(worker string) string {
	return worker + "-" + i.network[:nameDigits] + "-" + i.readout[:nameDigits]
}

// differsFrom names what the identity that a worker's name ends in does not have
// in common with i.
func (i identity) differsFrom(worker string) string {
	parts := strings.Split(worker, "-")
	if len(parts) != 3 || len(parts[1]) != nameDigits || len(parts[2]) != nameDigits {
		return "" // a program from before identities
	}
	return identity{i.network[:nameDigits], i.readout[:nameDigits]}.differs(identity{parts[1], parts[2]})
}

// entry is what a job says of itself on <job>.out.job, beside its partitions'
// records: the first worker writes it, on the condition that nobody has, and
// the others compare.
type entry struct {
	identity
	arithmetic string // for people; network has it
	worker     string // who wrote it
	meta       codec.PredictionMeta
}

// hashDigits is how many hexadecimal digits of a SHA-256 tell models apart.
const hashDigits = 32

func (e *entry) header() wireHeader {
	h := wireHeader{headerKind: {kindJob}, headerWorker: {e.worker}, headerNetwork: {e.network}, headerInSeq: {"0"}, headerOuts: {"0"}}
	if e.readout != "" {
		h[headerReadout] = []string{e.readout}
	}
	if e.arithmetic != "" {
		h[headerArith] = []string{e.arithmetic}
	}
	return h
}

// parseEntry reads a job's entry: headers and body of message seq.
func parseEntry(h wireHeader, body []byte, subject string, seq uint64) (entry, error) {
	e := entry{identity{headerValue(h, headerNetwork), headerValue(h, headerReadout)}, headerValue(h, headerArith), headerValue(h, headerWorker), codec.PredictionMeta{}}
	var err error
	if e.meta, _, err = codec.DecodePredictions(body); err == nil && (headerValue(h, headerKind) != kindJob || len(e.network) != hashDigits) {
		err = fmt.Errorf("headers %s %q and %s %q: want %s and %d digits", headerKind, headerValue(h, headerKind), headerNetwork, e.network, kindJob, hashDigits)
	}
	if err != nil {
		return entry{}, foreign(seq, subject, err)
	}
	return e, nil
}

// ForeignError is a message among a job's output that is no prediction:
// something else publishes there.
type ForeignError struct {
	Seq uint64 // in the output NATS stream
	err error
}

func (e *ForeignError) Error() string { return e.err.Error() }

func (e *ForeignError) Unwrap() error { return e.err }

// foreign words what is wrong with a message of a partition's output.
func foreign(seq uint64, subject string, err error) error {
	return &ForeignError{seq, fmt.Errorf("pipeline: message %d on %s: %w: %s", seq, subject, err, wayOut(subject, seq))}
}
