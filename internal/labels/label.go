package labels

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/names"
)

// Label is the class of a part of a stream: its samples from From until before To, or
// the sequence of the prediction with Seq and Row.
type Label struct {
	Stream   string
	From, To int64  // ns since 1970, as in the samples' column ts
	Seq      uint64 // of the prediction; 0 = From and To count
	Row      uint32 // of that sample in the message
	Class    string // the class; empty = an earlier label is withdrawn
	Who      string
	When     time.Time
}

// target is the labeled part, and the person: the last label with the same target
// counts.
type target struct {
	stream, who string
	from, to    int64
	seq         uint64
	row         uint32
}

func (l *Label) targetOf() target { return target{l.Stream, l.Who, l.From, l.To, l.Seq, l.Row} }

// body is a label as JSON.
type body struct {
	Stream    string     `json:"stream"`
	From      *time.Time `json:"from,omitempty"`
	To        *time.Time `json:"to,omitempty"`
	Seq       uint64     `json:"seq,omitempty"`
	Row       *uint32    `json:"row,omitempty"`
	Label     string     `json:"label,omitempty"`
	Withdrawn bool       `json:"withdrawn,omitempty"`
	Who       string     `json:"who"`
	When      time.Time  `json:"when"`
}

// CheckLabel refuses a label without a class or target.
func (l *Label) CheckLabel() error {
	for _, n := range []struct{ what, name string }{{"stream", l.Stream}, {"who", l.Who}, {"label", l.Class}} {
		if err := names.Check(n.what, n.name); err != nil {
			return fmt.Errorf("labels: %w", err)
		}
		if n.name == "" && n.what != "label" {
			return fmt.Errorf("labels: %s is empty, want a name", n.what)
		}
	}
	switch {
	case l.Seq == 0 && l.From >= l.To:
		return fmt.Errorf("labels: from %s until before %s: want a time and a later one, or the number of a sequence", timeOf(l.From), timeOf(l.To))
	case l.Seq != 0 && (l.From != 0 || l.To != 0):
		return errors.New("labels: both times and a sequence: want one of them")
	case l.Seq == 0 && l.Row != 0:
		return errors.New("labels: row without seq")
	case l.When.IsZero():
		return errors.New("labels: when is not set")
	}
	return nil
}

func timeOf(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339Nano) }

// Marshal encodes the label for a message.
func (l *Label) Marshal() ([]byte, error) {
	if err := l.CheckLabel(); err != nil {
		return nil, err
	}
	b := body{Stream: l.Stream, Seq: l.Seq, Label: l.Class, Withdrawn: l.Class == "", Who: l.Who, When: l.When.UTC()}
	if l.Seq != 0 {
		b.Row = &l.Row
	} else {
		from, to := time.Unix(0, l.From).UTC(), time.Unix(0, l.To).UTC()
		b.From, b.To = &from, &to
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(b); err != nil {
		return nil, fmt.Errorf("labels: %w", err)
	}
	return bytes.TrimSpace(text.Bytes()), nil
}

// Unmarshal reads a message. Unknown fields are an error: they may change the label's
// meaning.
func Unmarshal(data []byte) (Label, error) {
	if len(data) > MaxBytes {
		return Label{}, fmt.Errorf("labels: %d bytes, want at most %d", len(data), MaxBytes)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var b body
	if err := dec.Decode(&b); err != nil {
		return Label{}, fmt.Errorf("labels: %w", err)
	}
	if dec.More() {
		return Label{}, errors.New("labels: more than one JSON value")
	}
	l := Label{Stream: b.Stream, Seq: b.Seq, Class: b.Label, Who: b.Who, When: b.When}
	if b.Row != nil {
		l.Row = *b.Row
	}
	for _, at := range []struct {
		text string
		from *time.Time
		to   *int64
	}{{"from", b.From, &l.From}, {"to", b.To, &l.To}} {
		if at.from == nil {
			continue
		}
		*at.to = at.from.UnixNano()
		if !time.Unix(0, *at.to).Equal(*at.from) {
			return Label{}, fmt.Errorf("labels: %s: the year %d is beyond 64 bits of ns", at.text, at.from.Year())
		}
	}
	if (b.From == nil) != (b.To == nil) || (b.Seq == 0) != (b.Row == nil) || (b.From == nil) == (b.Seq == 0) {
		return Label{}, errors.New("labels: want from and to, or seq and row")
	}
	if b.Withdrawn == (b.Label != "") {
		return Label{}, errors.New("labels: want label, or withdrawn: true")
	}
	return l, l.CheckLabel()
}

// messageID returns the message's id, by which the server recognizes a repeat.
func messageID(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}
