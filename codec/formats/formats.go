package formats

import (
	"errors"
	"fmt"
	"slices"

	"github.com/eusn-stream/eusn-stream/codec"
)

// Decoder reads messages for one model, as codec.Decoder does, which is one. It
// belongs to one goroutine, keeps no reference to a payload, and leaves b empty
// after an error, which is of kind codec.ErrMalformed, codec.ErrSchema or
// codec.ErrNonFinite.
type Decoder interface {
	Decode(payload []byte, b *codec.Batch) error
}

// New returns a decoder of messages as in describes them, for a model that
// expects s.
func New(in Input, s codec.Schema) (Decoder, error) {
	l, err := layoutOf(in, s)
	if err != nil {
		return nil, err
	}
	if l.Format == Auto {
		return newAuto(l)
	}
	d, err := one(l, l.Format)
	if err != nil {
		return nil, err
	}
	return &told{d, l.Format}, nil
}

// one is the decoder of one format.
func one(l *layout, f Format) (Decoder, error) {
	if f != JSON { // input.rows is of JSON alone
		plain := *l
		plain.Rows = ""
		l = &plain
	}
	switch f {
	case JSON:
		return newJSON(l)
	case CSV:
		return newCSV(l)
	case Influx:
		return newInflux(l)
	case SenML:
		return newSenML(l)
	case Raw:
		return newRaw(l)
	}
	return codec.NewDecoder(l.schema)
}

// told is a decoder that says what a message looks like that is not of its
// format.
type told struct {
	Decoder
	format Format
}

func (t *told) Decode(payload []byte, b *codec.Batch) error {
	err := t.Decoder.Decode(payload, b)
	if err == nil || errors.Is(err, codec.ErrNonFinite) {
		return err
	}
	f, words := Looks(payload)
	if !t.tells(f, words) {
		return err
	}
	advice := fmt.Sprintf("this job reads input.format %s", t.format)
	switch {
	case f == "":
	case t.format == Arrow:
		advice += fmt.Sprintf(": a job that begins with input.format: %s (or auto) reads it", f)
	default:
		advice += fmt.Sprintf(": a job that begins with input.format: %s reads it", f)
	}
	kind := codec.ErrMalformed
	if errors.Is(err, codec.ErrSchema) {
		kind = codec.ErrSchema
	}
	detail := ""
	if t.format != Arrow || f == "" { // of another format, the Arrow reader's error says nothing
		detail = fmt.Sprintf(" (%v)", err)
	}
	return &messageError{kind, fmt.Sprintf("%s: the message looks like %s, %s; %s%s", t.format, words, short(payload), advice, detail)}
}

// tells reports whether what a message looks like explains its error: another
// format, or a file of another kind. Any text or bytes are told for Arrow alone,
// whose own error would not help.
func (t *told) tells(f Format, words string) bool {
	switch {
	case f == t.format, t.format == SenML && f == JSON, words == singleValue && t.format == Raw: // any digits
		return false
	case f != "", t.format == Arrow && words != "":
		return true
	}
	return slices.ContainsFunc(magics, func(m magic) bool { return m.words == words })
}

// auto chooses the decoder by the first bytes of each message.
type auto struct {
	*layout
	decoders map[Format]Decoder
	wrong    map[Format]error // why the settings do not fit a format
	last     Format
}

func newAuto(l *layout) (*auto, error) {
	a := &auto{layout: l, decoders: map[Format]Decoder{}, wrong: map[Format]error{}}
	for _, f := range []Format{Arrow, JSON, CSV, Influx} {
		if d, err := one(l, f); err == nil {
			a.decoders[f] = d
		} else {
			a.wrong[f] = err
		}
	}
	if len(a.decoders) == 1 { // Arrow, which needs no settings
		return nil, a.wrong[JSON]
	}
	return a, nil
}

// Last is the format of the last message whose format is known.
func (a *auto) Last() Format { return a.last }

func (a *auto) Decode(payload []byte, b *codec.Batch) error {
	f, words := Looks(payload)
	d := a.decoders[f]
	if d == nil {
		b.Reset()
		return a.unknown(f, words, payload)
	}
	a.last = f
	return d.Decode(payload, b)
}

// unknown words that a message has no decoder.
func (a *auto) unknown(f Format, words string, payload []byte) error {
	if err := a.wrong[f]; err != nil {
		return &messageError{codec.ErrSchema, fmt.Sprintf("auto: the message looks like %s, %s, but the settings do not fit it: %v", words, short(payload), err)}
	}
	if words == "" {
		words = "none of the formats"
	}
	return malformed(Auto, "the message looks like %s, %s: want Arrow, JSON, CSV or line protocol; a job that begins with input.format: raw reads bare numbers", words, short(payload))
}
