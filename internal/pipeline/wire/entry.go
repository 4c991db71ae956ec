package wire

import (
	"fmt"
	"strings"

	"github.com/eusn-stream/eusn-stream/codec"
)

// Identity identifies the model of a job: 32 hexadecimal digits each, of SHA-256.
type Identity struct {
	Network string // of the model without readouts, and the arithmetic
	Readout string // of the active readout, and of the input format unless it is Arrow; empty: the first worker decides
}

// Differs names the differences of two identities; an empty field is no difference.
func (i Identity) Differs(o Identity) string {
	other := func(a, b string) bool { return a != "" && b != "" && a != b }
	switch {
	case other(i.Network, o.Network):
		return "network"
	case other(i.Readout, o.Readout):
		return "readout"
	}
	return ""
}

// NameDigits is the number of digits of both identities at the end of a worker's name:
// the list of workers contains only names.
const NameDigits = 12

// Sign adds the identity to a worker's name.
func (i Identity) Sign(worker string) string {
	return worker + "-" + i.Network[:NameDigits] + "-" + i.Readout[:NameDigits]
}

// DiffersFrom names the differences between i and the identity in a worker's name.
func (i Identity) DiffersFrom(worker string) string {
	parts := strings.Split(worker, "-")
	if len(parts) != 3 || len(parts[1]) != NameDigits || len(parts[2]) != NameDigits {
		return "" // not a worker's name
	}
	return Identity{i.Network[:NameDigits], i.Readout[:NameDigits]}.Differs(Identity{parts[1], parts[2]})
}

// Entry describes a job on <job>.out.job, next to its partitions' records: the first
// worker writes it, on the condition that no entry exists, and other workers compare.
type Entry struct {
	Identity
	Arithmetic string     // for people; network identifies the arithmetic
	Worker     string     // the writer
	Input      string     // how messages are read, as package internal/formats writes it; empty = as Arrow
	Resize     Resize     // the job's number of partitions, if it has changed or is changing
	Source     Source     // the job whose input is read, if it is another job
	Promotions Promotions // the newest promotions of readouts
	Shadows    string     // see ParseShadows
	Meta       codec.PredictionMeta
}

// HashDigits is the number of hexadecimal digits of a SHA-256 that identify a model.
const HashDigits = 32

// Header returns the entry in its stored form.
func (e *Entry) Header() Header {
	h := Header{HeaderKind: {KindJob}, HeaderWorker: {e.Worker}, HeaderNetwork: {e.Network}, HeaderInSeq: {"0"}, HeaderOuts: {"0"}}
	for name, text := range map[string]string{
		HeaderReadout: e.Readout, HeaderPromotions: e.Promotions.String(),
		HeaderArith: e.Arithmetic, HeaderInput: e.Input, HeaderResize: e.Resize.String(), HeaderSource: e.Source.String(), HeaderShadows: e.Shadows,
	} {
		if text != "" {
			h[name] = []string{text}
		}
	}
	return h
}

// ParseEntry reads a job's entry: headers and body of message seq.
func ParseEntry(h Header, body []byte, subject string, seq uint64) (Entry, error) {
	e := Entry{
		Identity: Identity{Get(h, HeaderNetwork), Get(h, HeaderReadout)}, Arithmetic: Get(h, HeaderArith),
		Worker: Get(h, HeaderWorker), Input: Get(h, HeaderInput), Shadows: Get(h, HeaderShadows),
	}
	var err error
	if e.Source, err = parseSource(Get(h, HeaderSource)); err == nil {
		e.Resize, err = parseResize(Get(h, HeaderResize))
	}
	if err != nil {
		return Entry{}, Foreign(seq, subject, err)
	}
	if e.Promotions, err = parsePromotions(Get(h, HeaderPromotions)); err != nil {
		return Entry{}, Foreign(seq, subject, err)
	}
	if e.Meta, _, err = codec.DecodePredictions(body); err == nil && (Get(h, HeaderKind) != KindJob || len(e.Network) != HashDigits) {
		err = fmt.Errorf("headers %s %q and %s %q: want %s and %d digits", HeaderKind, Get(h, HeaderKind), HeaderNetwork, e.Network, KindJob, HashDigits)
	}
	if err != nil {
		return Entry{}, Foreign(seq, subject, err)
	}
	return e, nil
}

// ForeignError reports a message in a job's output that is no prediction: another
// program publishes there.
type ForeignError struct {
	Seq uint64 // in the output NATS stream
	Err error  // the problem
}

func (e *ForeignError) Error() string { return e.Err.Error() }

func (e *ForeignError) Unwrap() error { return e.Err }

// Foreign reports an invalid message in a partition's output.
func Foreign(seq uint64, subject string, err error) error {
	return &ForeignError{seq, fmt.Errorf("pipeline: message %d on %s: %w: %s", seq, subject, err, wayOut(subject, seq))}
}

// NoPredictions encodes a message without predictions.
func NoPredictions(meta codec.PredictionMeta) ([]byte, error) {
	enc, err := codec.NewPredictionEncoder(meta)
	if err != nil {
		return nil, fmt.Errorf("pipeline: %w", err)
	}
	body, err := enc.Encode(nil)
	if err != nil {
		return nil, fmt.Errorf("pipeline: %w", err)
	}
	return body, nil
}

// RecordEntry returns the model identity in a record and its body.
func RecordEntry(r Record, body []byte) Entry {
	e := Entry{Identity: r.Identity, Arithmetic: r.Arithmetic, Worker: r.Worker}
	if meta, _, err := codec.DecodePredictions(body); err == nil {
		e.Meta = meta
	}
	return e
}
