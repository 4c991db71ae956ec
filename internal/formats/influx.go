package formats

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/influxdata/line-protocol/v2/lineprotocol"

	"github.com/eusn-stream/eusn-stream/codec"
)

// influxDecoder reads line protocol. A line is a row:
//
//	measurement,tag=text,... field=value,... time
type influxDecoder struct {
	table
	tags, fields map[string]int // by name: channels, and the targets of json.go
	measurement  bool           // is the stream id
	found        []bool         // channels of the current line
}

// The place of a source in line protocol.
const (
	inFields      = "fields"
	inTags        = "tags"
	ofMeasurement = "measurement"
)

func newInflux(l *layout) (*influxDecoder, error) {
	d := &influxDecoder{table: newTable(l, Influx), tags: map[string]int{}, fields: map[string]int{}, found: make([]bool, len(l.channels))}
	for c, s := range l.channels {
		if err := d.addSource(s, c, inFields); err != nil {
			return nil, fmt.Errorf("formats: input.channels of %q: %w", l.schema.Channels[c], err)
		}
	}
	if l.Time != "" {
		if err := d.addSource(l.time, timeTarget, inFields); err != nil {
			return nil, fmt.Errorf("formats: input.time: %w", err)
		}
	}
	if err := d.addSource(l.end, endTarget, inFields); err != nil {
		return nil, fmt.Errorf("formats: input.end: %w", err)
	}
	if s := l.stream.steps; len(s) == 1 && s[0].name == ofMeasurement {
		d.measurement = true
	} else if err := d.addSource(l.stream, streamTarget, inTags); err != nil {
		return nil, fmt.Errorf("formats: input.stream: %w", err)
	}
	return d, nil
}

// addSource sets the meaning of the tag or field at a source. A plain name is in where.
func (d *influxDecoder) addSource(s source, target int, where string) error {
	name := ""
	switch {
	case len(s.steps) == 1:
		name = s.steps[0].name
	case len(s.steps) == 2 && (s.steps[0].name == inFields || s.steps[0].name == inTags):
		where, name = s.steps[0].name, s.steps[1].name
	}
	if name == "" {
		return fmt.Errorf("%q: want a name, $.fields.NAME or $.tags.NAME, in line protocol", s.text)
	}
	all := d.fields
	if where == inTags {
		all = d.tags
	}
	if _, taken := all[name]; taken {
		return fmt.Errorf("%q: another setting has this name", s.text)
	}
	all[name] = target
	return nil
}

// Decode implements Decoder.
func (d *influxDecoder) Decode(payload []byte, b *codec.Batch) error {
	b.Reset()
	d.beginMessage()
	payload = bytes.TrimPrefix(payload, byteOrderMark)
	err := d.decodeLines(lineprotocol.NewDecoderWithBytes(payload), b)
	if miss, ok := err.(*missingChannel); ok {
		err = d.missing(Influx, b.Rows, miss.channel, namesInLine(payload, b.Rows))
	}
	if err != nil {
		b.Reset()
	}
	return err
}

func (d *influxDecoder) decodeLines(r *lineprotocol.Decoder, b *codec.Batch) error {
	for r.Next() {
		d.beginRecord()
		clear(d.found)
		if err := d.readLine(r, b.Rows); err != nil {
			return err
		}
		for c, seen := range d.found {
			if !seen {
				return &missingChannel{c}
			}
		}
		if err := d.endRecord(b); err != nil {
			return err
		}
	}
	return d.endMessage(b)
}

// readLine reads the parts of a line, in the order of the line.
func (d *influxDecoder) readLine(r *lineprotocol.Decoder, row int) error {
	name, err := r.Measurement()
	if err != nil {
		return d.syntaxError(err)
	}
	if d.measurement {
		d.row.addStream(name)
	}
	for {
		key, value, err := r.NextTag()
		if err != nil {
			return d.syntaxError(err)
		}
		if key == nil {
			break
		}
		if target, ok := d.tags[string(key)]; ok {
			if err := d.readValue(target, lineprotocol.String, value, row); err != nil {
				return err
			}
		}
	}
	for {
		key, kind, value, err := r.NextFieldBytes()
		if err != nil {
			return d.syntaxError(err)
		}
		if key == nil {
			break
		}
		if target, ok := d.fields[string(key)]; ok {
			if err := d.readValue(target, kind, value, row); err != nil {
				return err
			}
		}
	}
	at, err := r.TimeBytes()
	if err != nil {
		return d.syntaxError(err)
	}
	if len(at) > 0 && d.Time == "" {
		return d.readValue(timeTarget, lineprotocol.Int, at, row)
	}
	return nil
}

// readValue reads the value of a source.
func (d *influxDecoder) readValue(target int, kind lineprotocol.ValueKind, text []byte, row int) error {
	m, again, ok := &d.row, false, true
	switch target {
	case timeTarget:
		var ns int64
		again = len(m.times) > 0
		ns, ok = timeOf(text, digitsOf[d.TimeUnit])
		m.times = append(m.times, ns)
	case streamTarget:
		again = len(m.offsets) > 0
		ok = kind == lineprotocol.String || kind == lineprotocol.Int || kind == lineprotocol.Uint
		m.addStream(text)
	case endTarget:
		var end bool
		again = len(m.ends) > 0
		end, ok = boolOf(text)
		ok = ok && kind == lineprotocol.Bool
		m.ends = append(m.ends, end)
	default:
		again = d.found[target]
		d.found[target] = true
		var x float32
		if kind == lineprotocol.Bool {
			var yes bool
			yes, ok = boolOf(text)
			x = d.channels[target].fromBool(yes)
		} else {
			x, ok = d.channels[target].fromText(text)
		}
		d.cols[target] = append(d.cols[target], x)
	}
	switch {
	case again:
		return malformed(Influx, "row %d: %s is there twice", row, d.place(target))
	case !ok:
		return mismatch(Influx, "row %d, %s: want %s, got %s", row, d.place(target), wantOf(target), short(text))
	}
	return nil
}

// boolOf parses the words of line protocol.
func boolOf(text []byte) (yes, ok bool) {
	switch string(text) {
	case "t", "T", "true", "True", "TRUE":
		return true, true
	case "f", "F", "false", "False", "FALSE":
		return false, true
	}
	return false, false
}

func (d *influxDecoder) place(target int) string {
	switch target {
	case timeTarget:
		return "time"
	case streamTarget:
		return fmt.Sprintf("stream id (%s)", d.layout.stream.text)
	case endTarget:
		return fmt.Sprintf("end mark (%s)", d.layout.end.text)
	}
	return fmt.Sprintf("channel %q (%s)", d.schema.Channels[target], d.channels[target].text)
}

func wantOf(target int) string {
	switch target {
	case timeTarget:
		return "a time (input.time_unit is its unit)"
	case streamTarget:
		return "a text or a whole number"
	case endTarget:
		return "true or false"
	}
	return "a number"
}

// syntaxError explains the library's error, which may quote any amount of the message.
func (d *influxDecoder) syntaxError(err error) error {
	text := err.Error()
	if len(text) > 200 {
		text = strings.ToValidUTF8(text[:200], "?") + "..."
	}
	return malformed(Influx, "%s", text)
}

// namesInLine lists the fields and tags of the given line of the message.
func namesInLine(payload []byte, row int) []string {
	r := lineprotocol.NewDecoderWithBytes(payload)
	for i := 0; r.Next(); i++ {
		if i < row {
			continue
		}
		var fields, tags []string
		for len(tags) < mostNames {
			key, _, err := r.NextTag()
			if err != nil || key == nil {
				break
			}
			tags = append(tags, "tag "+string(key[:min(len(key), 60)]))
		}
		for len(fields) < mostNames {
			key, _, _, err := r.NextFieldBytes()
			if err != nil || key == nil {
				break
			}
			fields = append(fields, string(key[:min(len(key), 60)]))
		}
		return clean(append(fields, tags...))
	}
	return nil
}
