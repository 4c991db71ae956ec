package formats

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/eusn-stream/eusn-stream/codec"
)

// Format is the format of the samples of a message.
type Format string

// The formats. The empty string means Arrow.
const (
	Auto   Format = "auto"   // by the first bytes of each message: Arrow, JSON, CSV or Influx
	Arrow  Format = "arrow"  // an Arrow IPC stream: see package codec
	JSON   Format = "json"   // an object, or an array of objects, of numbers or of arrays
	CSV    Format = "csv"    // lines of cells, the first with the names
	Influx Format = "influx" // line protocol
	SenML  Format = "senml"  // packs of RFC 8428, as JSON or CBOR
	Raw    Format = "raw"    // numbers of one type, row after row
)

// Formats are all formats of an Input.
var Formats = []Format{Auto, Arrow, JSON, CSV, Influx, SenML, Raw}

// Units are the units of a numeric time.
var Units = []string{"ns", "us", "ms", "s"}

// Separators are the separators between the cells of a CSV line.
var Separators = []string{",", ";", "|", "\t"}

// Input describes the reading of messages. It determines the samples of a message, so a
// job keeps its initial Input.
//
// A source is the place of a value in a message. In JSON a source is a path ($.axis.x,
// $.values[0], $["a name"]); in CSV the name of a column, or its position ([0]); in line
// protocol a field (a tag for a stream: $.tags.NAME and $.fields.NAME distinguish both);
// in bare numbers a position. A channel's source may continue with a scale, an offset or
// both: "$.t * 0.1 - 40".
type Input struct {
	Format Format `json:"format"`
	// Channels are the sources of channels, by channel name. The default source of a
	// channel is its name.
	Channels map[string]string `json:"channels,omitempty"`
	// Rows is the array in a JSON message whose elements are rows. Then sources are in a
	// row, and sources that begin with "$" are in the message. Empty: the message is a
	// row, or an array of rows.
	Rows string `json:"rows,omitempty"`
	// Time, Stream and End are the sources of a row's time, stream id and end mark.
	// Empty: ts, stream_id and end, if present. An explicit Time or Stream must be in
	// every row.
	Time   string `json:"time,omitempty"`
	Stream string `json:"stream,omitempty"`
	End    string `json:"end,omitempty"`
	// TimeUnit is the unit of numeric times, since 1970: one of Units. Default ns. Texts
	// are RFC 3339.
	TimeUnit string `json:"time_unit,omitempty"`
	// TimeStep is the time between the rows of a JSON message with arrays of samples and
	// one time, the time of the first row. 0: such a message is refused.
	TimeStep time.Duration `json:"time_step,omitempty"`
	// Separator is the separator between the cells of a CSV line: one of Separators.
	// Default comma.
	Separator string `json:"csv_separator,omitempty"`
	// RawType is the type of bare numbers: one of RawTypes. Default f32le.
	RawType string `json:"raw_type,omitempty"`
}

// WithDefaults sets the fields that matter to the format and clears the rest, so that two
// inputs with the same meaning are equal.
func (in Input) WithDefaults() Input {
	if in.Format == "" {
		in.Format = Arrow
	}
	in.Channels = maps.Clone(in.Channels)
	if len(in.Channels) == 0 {
		in.Channels = nil
	}
	if in.Format == Arrow {
		return Input{Format: Arrow}
	}
	def := func(s *string, value string, matters bool) {
		if !matters {
			*s = ""
		} else if *s == "" {
			*s = value
		}
	}
	json := in.Format == JSON || in.Format == Auto
	def(&in.Rows, "", json)
	marks := in.Format != Raw && in.Format != SenML
	def(&in.Time, "", marks)
	def(&in.Stream, "", in.Format != Raw)
	def(&in.End, "", marks)
	def(&in.TimeUnit, "ns", marks)
	def(&in.Separator, ",", in.Format == CSV || in.Format == Auto)
	def(&in.RawType, "f32le", in.Format == Raw)
	if !json {
		in.TimeStep = 0
	}
	return in
}

// IsPlain reports whether only the format auto was chosen: it fits the input of any job.
func (in Input) IsPlain() bool { return in.Text() == Input{Format: Auto}.Text() }

// Text returns the stored form of the input: JSON with the keys in a fixed order. Inputs
// with the same meaning have the same text.
func (in Input) Text() string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(in.WithDefaults()); err != nil {
		panic("BUG: " + err.Error())
	}
	return strings.TrimSpace(b.String())
}

// Parse parses the result of Text. An empty text is Arrow.
func Parse(text string) (Input, error) {
	if text == "" {
		return Input{Format: Arrow}, nil
	}
	var in Input
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields() // of a later program: ignoring them would read other samples
	if err := dec.Decode(&in); err != nil {
		return Input{}, fmt.Errorf("formats: input %s: %w", short([]byte(text)), err)
	}
	return in.WithDefaults(), in.Validate()
}

// Differs lists the settings in which two inputs differ, each with both values. Empty:
// the inputs have the same meaning.
func (in Input) Differs(other Input) []string {
	a, b := in.WithDefaults(), other.WithDefaults()
	var all []string
	add := func(key string, a, b string) {
		if a != b {
			all = append(all, fmt.Sprintf("%s is %s, not %s", key, given(a), given(b)))
		}
	}
	add("input.format", string(a.Format), string(b.Format))
	if a.Format == Arrow || b.Format == Arrow {
		return all
	}
	names := slices.Sorted(maps.Keys(a.Channels))
	for name := range b.Channels {
		if _, both := a.Channels[name]; !both {
			names = append(names, name)
		}
	}
	for _, name := range names {
		add(fmt.Sprintf("input.channels of %q", name), a.Channels[name], b.Channels[name])
	}
	add("input.rows", a.Rows, b.Rows)
	add("input.time", a.Time, b.Time)
	add("input.time_unit", a.TimeUnit, b.TimeUnit)
	add("input.time_step", a.TimeStep.String(), b.TimeStep.String())
	add("input.stream", a.Stream, b.Stream)
	add("input.end", a.End, b.End)
	add("input.csv_separator", a.Separator, b.Separator)
	add("input.raw_type", a.RawType, b.RawType)
	return all
}

func given(s string) string {
	if s == "" {
		return "not set"
	}
	return fmt.Sprintf("%q", s)
}

// Validate reports the first error of the input that does not depend on the model's
// channels.
func (in Input) Validate() error {
	if in.Format != "" && !slices.Contains(Formats, in.Format) {
		return fmt.Errorf("formats: input.format is %q, want one of %q", in.Format, Formats)
	}
	if in.TimeUnit != "" && !slices.Contains(Units, in.TimeUnit) {
		return fmt.Errorf("formats: input.time_unit is %q, want one of %q", in.TimeUnit, Units)
	}
	if in.TimeStep < 0 {
		return fmt.Errorf("formats: input.time_step is %v, want 0s or a positive duration", in.TimeStep)
	}
	if s := in.Separator; s != "" && !slices.Contains(Separators, s) {
		return fmt.Errorf("formats: input.csv_separator is %q, want one of %q", s, Separators)
	}
	if _, known := rawTypes[in.RawType]; in.RawType != "" && !known {
		return fmt.Errorf("formats: input.raw_type is %q, want one of %q", in.RawType, RawTypes)
	}
	if err := in.checkUnused(); err != nil {
		return err
	}
	for name, from := range in.Channels {
		if _, err := parseSource(from, true); err != nil {
			return fmt.Errorf("formats: input.channels of %q: %w", name, err)
		}
	}
	for _, s := range []struct{ key, from string }{{"rows", in.Rows}, {"time", in.Time}, {"stream", in.Stream}, {"end", in.End}} {
		if s.from == "" {
			continue
		}
		if _, err := parseSource(s.from, false); err != nil {
			return fmt.Errorf("formats: input.%s: %w", s.key, err)
		}
	}
	return nil
}

// checkUnused refuses settings without effect.
func (in Input) checkUnused() error {
	never := func(key string, set bool, why string) error {
		if set {
			return fmt.Errorf("formats: input.%s does nothing with input.format %s: %s", key, in.WithDefaults().Format, why)
		}
		return nil
	}
	switch in.Format {
	case Arrow, "":
		for key, set := range map[string]bool{"channels": len(in.Channels) > 0, "rows": in.Rows != "", "time": in.Time != "", "stream": in.Stream != "", "end": in.End != ""} {
			if err := never(key, set, "an Arrow message names its fields itself"); err != nil {
				return err
			}
		}
	case Raw:
		for key, set := range map[string]bool{"rows": in.Rows != "", "time": in.Time != "", "stream": in.Stream != "", "end": in.End != ""} {
			if err := never(key, set, "there are only samples"); err != nil {
				return err
			}
		}
	case SenML:
		for key, set := range map[string]bool{"rows": in.Rows != "", "time": in.Time != "", "end": in.End != ""} {
			if err := never(key, set, "SenML defines the places of its values and times"); err != nil {
				return err
			}
		}
	case CSV, Influx:
		return never("rows", in.Rows != "", "each line is a row")
	}
	return nil
}

// layout is an input with parsed sources, for a model's channels.
type layout struct {
	Input
	schema            codec.Schema
	channels          []source // one per channel of the model
	rows              source
	time, stream, end source
}

// layoutOf resolves an input for a model.
func layoutOf(in Input, s codec.Schema) (*layout, error) {
	if err := in.Validate(); err != nil {
		return nil, err
	}
	if err := s.Validate(); err != nil {
		return nil, err
	}
	s.Channels = slices.Clone(s.Channels)
	l := &layout{Input: in.WithDefaults(), schema: s}
	for name := range l.Channels {
		if !slices.Contains(s.Channels, name) {
			return nil, fmt.Errorf("formats: input.channels names %q, but the model's channels are %s", name, list(s.Channels))
		}
	}
	for _, name := range s.Channels {
		from, mapped := l.Channels[name]
		src := source{text: name, steps: []step{{name: name, index: -1}}, scale: 1}
		if mapped {
			src, _ = parseSource(from, true) // checked by Validate
		}
		l.channels = append(l.channels, src)
	}
	l.rows, _ = parseSource(l.Rows, false)
	l.time, l.stream, l.end = namedSource(l.Time, "ts"), namedSource(l.Stream, "stream_id"), namedSource(l.End, "end")
	return l, nil
}

// namedSource parses a source, or returns the default source at a name.
func namedSource(from, preset string) source {
	if from == "" {
		return source{text: preset, steps: []step{{name: preset, index: -1}}, scale: 1}
	}
	s, _ := parseSource(from, false)
	return s
}

// list lists some of many names.
func list(names []string) string {
	const most = 12
	text := strings.Join(names[:min(most, len(names))], ", ")
	if len(names) > most {
		text += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return text
}
