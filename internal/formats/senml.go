package formats

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/eusn-stream/eusn-stream/codec"
)

// Limits of SenML (RFC 8428).
const (
	senmlVersion  = 10
	relativeBelow = int64(1) << 28 * 1e9 // ns: earlier times are relative to now
	mostCells     = 8                    // samples per byte of a message: a row has all channels
	baseName      = "bn"                 // input.stream: the base name
)

// senmlDecoder reads packs of SenML, as JSON or CBOR. Records of the same time are a row;
// the rows are in the order of their times.
type senmlDecoder struct {
	table
	byBase       bool         // a stream for each base name
	now          func() int64 // nil: relative times are ignored
	rows         []senmlRow
	at           map[senmlKey]int
	ids          []string // of streams, by number
	number       map[string]int
	unit         []string // of each channel in the message
	found        []bool
	unknownNames []string // names without a channel
	tokens       *jsontext.Decoder
	pairs        map[any]any
	named        *Named
}

type senmlKey struct {
	time   int64
	stream int
}

type senmlRow struct {
	senmlKey
	x []float32
}

// senmlRecord is a record. Absent fields are empty or nil.
type senmlRecord struct {
	BaseName    *string        `json:"bn"`
	BaseTime    jsontext.Value `json:"bt"`
	BaseUnit    *string        `json:"bu"`
	BaseValue   jsontext.Value `json:"bv"`
	BaseVersion jsontext.Value `json:"bver"`
	Name        string         `json:"n"`
	Unit        string         `json:"u"`
	Value       jsontext.Value `json:"v"`
	Sum         jsontext.Value `json:"s"`
	Text        *string        `json:"vs"`
	Bool        *bool          `json:"vb"`
	Data        jsontext.Value `json:"vd"`
	Time        jsontext.Value `json:"t"`
	//lint:ignore SA5008 the JSON library has this option, the linter knows an older name of it
	Others jsontext.Value `json:",embed"`

	value, base exact // of CBOR: numbers that are not decimals
}

// exact is a number with its original bits.
type exact struct {
	f   float64
	set bool
}

// senmlBase are the current base fields.
type senmlBase struct {
	name, unit string
	time       int64
	value      float64
	valued     bool
}

func newSenML(l *layout) (*senmlDecoder, error) {
	named, err := namedOf(l)
	if err != nil {
		return nil, err
	}
	d := &senmlDecoder{table: newTable(l, SenML), named: named, at: map[senmlKey]int{}, number: map[string]int{}, unit: make([]string, len(l.channels)),
		found: make([]bool, len(l.channels)), pairs: map[any]any{}, byBase: l.Stream == baseName, tokens: jsontext.NewDecoder(bytes.NewReader(nil))}
	if l.Stream != "" && !d.byBase {
		return nil, fmt.Errorf("formats: input.stream is %q: want %s, the base name, or nothing with input.format senml", l.Stream, baseName)
	}
	return d, nil
}

// SetClock sets the clock of a decoder, in ns since 1970. SenML has times relative to the
// arrival of a message; without a clock their rows have no time. Other formats need no
// clock.
func SetClock(d Decoder, now func() int64) {
	if t, ok := d.(*hintDecoder); ok {
		d = t.Decoder
	}
	if s, ok := d.(*senmlDecoder); ok {
		s.now = now
	}
}

// Decode implements Decoder.
func (d *senmlDecoder) Decode(payload []byte, b *codec.Batch) error {
	b.Reset()
	d.beginMessage()
	d.rows, d.ids, d.unknownNames = d.rows[:0], d.ids[:0], d.unknownNames[:0]
	clear(d.at)
	clear(d.number)
	clear(d.found)
	clear(d.unit)
	var base senmlBase
	limit := mostCells*len(payload) + 1024
	add := func(r *senmlRecord, i int) error {
		err := d.addRecord(r, &base, limit)
		if err != nil {
			err = malformed(SenML, "record %d: %v", i, err)
		}
		return err
	}
	text := bytes.TrimLeft(bytes.TrimPrefix(payload, byteOrderMark), " \t\r\n")
	var err error
	switch {
	case len(text) == 0:
		err = malformed(SenML, "no pack, want an array of records")
	case text[0] == '[':
		err = d.readJSON(text, add)
	case text[0] >= 0x80 && text[0] <= 0x9f:
		err = d.readCBOR(payload, add)
	case text[0] == '{':
		err = malformed(SenML, "the message is an object, want an array of records")
	default:
		err = malformed(SenML, "the message begins with %s: want a JSON array or a CBOR array of records", short(text[:min(len(text), 8)]))
	}
	if err == nil {
		err = d.gatherRows(b)
	}
	if err != nil {
		b.Reset()
	}
	return err
}

// addRecord adds a record's value to its row.
func (d *senmlDecoder) addRecord(r *senmlRecord, base *senmlBase, limit int) error {
	if err := base.setFields(r); err != nil {
		return err
	}
	c, ok := d.named.Channel(r.Name)
	if !ok {
		c, ok = d.named.Channel(base.name + r.Name)
	}
	if r.Name != "" && len(d.unknownNames) < 13 && !slices.Contains(d.unknownNames, r.Name) {
		d.unknownNames = append(d.unknownNames, r.Name)
	}
	if !ok {
		return nil
	}
	if len(r.Value) == 0 && r.Text == nil && r.Bool == nil && len(r.Data) == 0 {
		if !base.valued || r.Name == "" || len(r.Sum) > 0 { // a sum, or only base fields
			return nil
		}
		r.Value = jsontext.Value("0") // the base value is the value
	}
	name := d.schema.Channels[c]
	x, ok := d.sampleOf(c, r, base)
	if !ok {
		return fmt.Errorf("channel %q is no number", name)
	}
	unit := r.Unit
	if unit == "" {
		unit = base.unit
	}
	if d.found[c] && d.unit[c] != unit {
		return fmt.Errorf("channel %q has the units %s and %s in one message, want one", name, short([]byte(d.unit[c])), short([]byte(unit)))
	}
	d.found[c], d.unit[c] = true, unit
	key, err := d.keyOf(r, base)
	if err != nil {
		return err
	}
	i, there := d.at[key]
	if !there {
		if i = len(d.rows); (i+1)*len(d.channels) > limit {
			return fmt.Errorf("too few values: %d rows of %d channels in a message of this size: send the values of one time together", i+1, len(d.channels))
		}
		d.at[key] = i
		d.rows = slices.Grow(d.rows, 1)[:i+1] // keeps the samples of earlier messages
		row := &d.rows[i]
		row.senmlKey, row.x = key, slices.Grow(row.x[:0], len(d.channels))[:len(d.channels)]
		for j := range row.x {
			row.x[j] = missingValue
		}
	}
	if at := &d.rows[i].x[c]; math.Float32bits(*at) != math.Float32bits(missingValue) {
		return fmt.Errorf("channel %q has two values at one time; if they are of two devices, set input.stream: %s", name, baseName)
	} else if *at = x; math.IsNaN(float64(x)) {
		*at = float32(math.Inf(1)) // not finite, and not missing
	}
	return nil
}

// missingValue marks a channel without a value at a time. No value that is read has these
// bits: addRecord replaces them.
var missingValue = float32(math.NaN())

// setFields updates the base fields from a record; they apply to the following records as
// well.
func (base *senmlBase) setFields(r *senmlRecord) error {
	if len(r.Others) > 0 {
		if name := mustUnderstand(r.Others); name != "" {
			return fmt.Errorf("the field %s must be understood, and is not", short([]byte(name)))
		}
	}
	if len(r.BaseVersion) > 0 {
		v, err := strconv.Atoi(string(r.BaseVersion))
		if err != nil || v > senmlVersion {
			return fmt.Errorf("version (bver) %s, want at most %d", short(r.BaseVersion), senmlVersion)
		}
	}
	if r.BaseName != nil {
		base.name = *r.BaseName
	}
	if r.BaseUnit != nil {
		base.unit = *r.BaseUnit
	}
	if len(r.BaseTime) > 0 {
		ns, ok := senmlTime(r.BaseTime)
		if !ok {
			return fmt.Errorf("base time %s: want a number of seconds", short(r.BaseTime))
		}
		base.time = ns
	}
	if len(r.BaseValue) > 0 {
		f, ok := senmlFloat(r.BaseValue, r.base)
		if !ok {
			return fmt.Errorf("base value %s: want a number", short(r.BaseValue))
		}
		base.value, base.valued = f, true
	}
	return nil
}

// mustUnderstand returns a name in an object that ends in "_": a program without support
// for it must refuse the pack (RFC 8428, 4.4).
func mustUnderstand(object jsontext.Value) string {
	tokens := jsontext.NewDecoder(bytes.NewReader(object))
	if _, err := tokens.ReadToken(); err != nil {
		return ""
	}
	for tokens.PeekKind() == '"' {
		name, err := tokens.ReadToken()
		if err != nil {
			return ""
		}
		if text := name.String(); strings.HasSuffix(text, "_") {
			return text
		}
		if tokens.SkipValue() != nil {
			return ""
		}
	}
	return ""
}

func senmlTime(text []byte) (int64, bool) {
	if !isDecimal(text) {
		return 0, false
	}
	return decimalTime(text, digitsOf["s"])
}

func senmlFloat(text []byte, x exact) (float64, bool) {
	if x.set {
		return x.f, true
	}
	if !isDecimal(text) {
		return 0, false
	}
	f, _ := strconv.ParseFloat(string(text), 64)
	return f, true
}

// sampleOf returns a record's value. The sum with a base value is rounded to float64.
func (d *senmlDecoder) sampleOf(c int, r *senmlRecord, base *senmlBase) (float32, bool) {
	s := &d.channels[c]
	switch {
	case len(r.Value) > 0 && base.valued:
		f, ok := senmlFloat(r.Value, r.value)
		return s.scaled(float64(base.value + f)), ok
	case len(r.Value) > 0 && r.value.set:
		return s.scaled(r.value.f), true
	case len(r.Value) > 0:
		if !isDecimal(r.Value) {
			return 0, false
		}
		return s.fromText(r.Value)
	case r.Bool != nil:
		return s.fromBool(*r.Bool), true
	case r.Text != nil:
		return d.named.Sample(c, *r.Text)
	}
	return 0, false
}

// keyOf returns the row of a record.
func (d *senmlDecoder) keyOf(r *senmlRecord, base *senmlBase) (k senmlKey, err error) {
	k.time = base.time
	if len(r.Time) > 0 {
		ns, ok := senmlTime(r.Time)
		if !ok || ns > 0 && k.time > math.MaxInt64-ns || ns < 0 && k.time < math.MinInt64+1-ns {
			return k, fmt.Errorf("time %s: want a number of seconds", short(r.Time))
		}
		k.time += ns
	}
	if d.byBase {
		id := strings.TrimRight(base.name, "/:")
		n, there := d.number[id]
		if !there {
			if id == "" {
				return k, fmt.Errorf("no base name (bn), which is the stream id (input.stream: %s)", baseName)
			}
			n = len(d.ids)
			d.ids = append(d.ids, id)
			d.number[id] = n
		}
		k.stream = n
	}
	return k, nil
}

// gatherRows makes a batch of the rows.
func (d *senmlDecoder) gatherRows(b *codec.Batch) error {
	for c, found := range d.found {
		if !found && (len(d.rows) > 0 || len(d.unknownNames) > 0) {
			return d.missing(SenML, 0, c, d.unknownNames)
		}
	}
	slices.SortStableFunc(d.rows, func(a, b senmlRow) int {
		switch {
		case a.time != b.time:
			if a.time < b.time {
				return -1
			}
			return 1
		}
		return a.stream - b.stream
	})
	now, absolute := int64(0), false
	for i := range d.rows {
		absolute = absolute || d.rows[i].time >= relativeBelow
	}
	if d.now != nil {
		now, absolute = d.now(), true
	}
	for i := range d.rows {
		row := &d.rows[i]
		b.X = append(b.X, row.x...)
		if absolute {
			at := row.time
			switch {
			case at >= relativeBelow:
			case d.now == nil || at < math.MinInt64/2:
				at = codec.NoTime
			default:
				at += now
			}
			b.Times = append(b.Times, at)
		}
		if d.byBase && !d.names.Append([]byte(d.ids[row.stream]), b) {
			return malformed(SenML, "base name %s: want a text that is not empty, in UTF-8", short([]byte(d.ids[row.stream])))
		}
	}
	b.Rows = len(d.rows)
	return d.endMessage(b)
}
