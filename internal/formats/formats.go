package formats

import (
	"errors"
	"fmt"
	"slices"

	"github.com/eusn-stream/eusn-stream/codec"
)

// Decoder reads messages for a model, as codec.Decoder does. It belongs to one goroutine,
// keeps no reference to a payload, and leaves b empty after an error, whose kind is
// codec.ErrMalformed, codec.ErrSchema or codec.ErrNonFinite.
type Decoder interface {
	Decode(payload []byte, b *codec.Batch) error
}

// New returns a decoder of messages described by in, for a model that expects s.
func New(in Input, s codec.Schema) (Decoder, error) {
	l, err := layoutOf(in, s)
	if err != nil {
		return nil, err
	}
	if l.Format == Auto {
		return newAuto(l)
	}
	d, err := newDecoderOf(l, l.Format)
	if err != nil {
		return nil, err
	}
	return &hintDecoder{d, l.Format}, nil
}

// newDecoderOf returns the decoder of a format.
func newDecoderOf(l *layout, f Format) (Decoder, error) {
	if f != JSON { // only JSON has input.rows
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

// hintDecoder is a decoder that adds the probable format of a message to errors.
type hintDecoder struct {
	Decoder
	format Format
}

func (t *hintDecoder) Decode(payload []byte, b *codec.Batch) error {
	err := t.Decoder.Decode(payload, b)
	if err == nil || errors.Is(err, codec.ErrNonFinite) {
		return err
	}
	f, words := Looks(payload)
	if !t.isHelpful(f, words) {
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
	if t.format != Arrow || f == "" { // for another format, the Arrow reader's error is not useful
		detail = fmt.Sprintf(" (%v)", err)
	}
	return &messageError{kind, fmt.Sprintf("%s: the message looks like %s, %s; %s%s", t.format, words, short(payload), advice, detail)}
}

// isHelpful reports whether the probable format of a message explains its error: another
// format, or a file of another kind. For Arrow every hint is helpful, because the Arrow
// error alone would not help.
func (t *hintDecoder) isHelpful(f Format, words string) bool {
	switch {
	case f == t.format, t.format == SenML && f == JSON, words == singleValue && t.format == Raw: // any digits
		return false
	case f != "", t.format == Arrow && words != "":
		return true
	}
	return slices.ContainsFunc(magics, func(m magic) bool { return m.words == words })
}

// auto selects the decoder by the first bytes of each message.
type auto struct {
	*layout
	decoders map[Format]Decoder
	wrong    map[Format]error // reason why the settings do not fit a format
	last     Format
}

func newAuto(l *layout) (*auto, error) {
	a := &auto{layout: l, decoders: map[Format]Decoder{}, wrong: map[Format]error{}}
	for _, f := range []Format{Arrow, JSON, CSV, Influx} {
		if d, err := newDecoderOf(l, f); err == nil {
			a.decoders[f] = d
		} else {
			a.wrong[f] = err
		}
	}
	if len(a.decoders) == 1 { // only Arrow, which needs no settings
		return nil, a.wrong[JSON]
	}
	return a, nil
}

// Last returns the format of the last message with a known format.
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

// unknown returns the error of a message without a decoder.
func (a *auto) unknown(f Format, words string, payload []byte) error {
	if err := a.wrong[f]; err != nil {
		return &messageError{codec.ErrSchema, fmt.Sprintf("auto: the message looks like %s, %s, but the settings do not fit it: %v", words, short(payload), err)}
	}
	if words == "" {
		words = "none of the formats"
	}
	return malformed(Auto, "the message looks like %s, %s: want Arrow, JSON, CSV or line protocol; a job that begins with input.format: raw reads bare numbers", words, short(payload))
}
