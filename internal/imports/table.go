package imports

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eusn-stream/eusn-stream/internal/names"
	"github.com/eusn-stream/eusn-stream/internal/timeunit"
)

// Table describes the tables of a recording. An empty field is found in the files. A
// mapping file has the same fields.
type Table struct {
	Delimiter string   `yaml:"delimiter,omitempty"` // one of Delimiters
	Decimal   string   `yaml:"decimal,omitempty"`   // "." or ","
	Header    string   `yaml:"header,omitempty"`    // yes or no
	Names     []string `yaml:"names,omitempty"`     // of the columns, instead of the header's; s1..s21 are 21 names
	Files     string   `yaml:"files,omitempty"`     // FilesStreams or FilesSensors
	Rows      string   `yaml:"rows,omitempty"`      // RowsSamples or RowsRuns
	Transpose bool     `yaml:"transpose,omitempty"` // a line of the file is a column
	TimeUnit  string   `yaml:"time_unit,omitempty"` // of times that are numbers, one of timeunit.Names
	Dates     string   `yaml:"dates,omitempty"`     // order of dates such as 31/01/2026: DayFirst or MonthFirst
	Zone      string   `yaml:"zone,omitempty"`      // of times without an offset, as parseZone reads it; default UTC
	Every     string   `yaml:"every,omitempty"`     // interval between samples without a column of times, from 1970 on

	// Columns of one kind. Label may be a regular expression with a group in parentheses
	// over the names of streams, and Target Remaining or RemainingTime.
	Stream string `yaml:"stream,omitempty"`
	Time   string `yaml:"time,omitempty"`
	Seq    string `yaml:"seq,omitempty"`
	End    string `yaml:"end,omitempty"`
	Label  string `yaml:"label,omitempty"`
	Group  string `yaml:"group,omitempty"`
	Target string `yaml:"target,omitempty"`
	Sensor string `yaml:"sensor,omitempty"`
	Value  string `yaml:"value,omitempty"`

	Channels string            `yaml:"channels,omitempty"` // patterns of channels; all other values are ignored
	Ignore   string            `yaml:"ignore,omitempty"`   // patterns of ignored columns
	Classes  map[string]string `yaml:"classes,omitempty"`  // new names of labels
	Cap      float64           `yaml:"cap,omitempty"`      // largest number of the target; 0: no limit
	Runs     string            `yaml:"runs,omitempty"`     // table with a line for each stream: labels, groups, numbers
	Ends     bool              `yaml:"ends,omitempty"`     // the last sample of each stream ends a sequence
	Samples  string            `yaml:"samples,omitempty"`  // of each stream, such as 1..400 or 401..; empty: all

	Columns []MappedColumn `yaml:"columns,omitempty"`
}

// MappedColumn is a column in a mapping file.
type MappedColumn struct {
	Name string `yaml:"name"`
	Kind string `yaml:"kind"`
	As   string `yaml:"as,omitempty"` // name of the channel in the archive
}

// Values of Table.Files, Rows, Target and Delimiter.
const (
	FilesStreams = "streams" // a file is a stream
	FilesSensors = "sensors" // a file is a sensor
	RowsSamples  = "samples" // a row is a sample
	RowsRuns     = "runs"    // a row is a run of one sensor

	Remaining     = "remaining"      // seq until the last sample of the stream
	RemainingTime = "remaining-time" // seconds until then
)

// Delimiters are the values of Table.Delimiter.
var Delimiters = []string{",", ";", "|", "tab", "blank"}

// The kinds of columns.
const (
	kindStream  = "stream"
	kindTime    = "time"
	kindSeq     = "seq"
	kindEnd     = "end"
	kindLabel   = "label"
	kindGroup   = "group"
	kindTarget  = "target"
	kindSensor  = "sensor"
	kindValue   = "value"
	kindChannel = "channel"
	kindIgnored = "ignored"
)

// singleKinds are the kinds with at most one column.
var singleKinds = []string{kindStream, kindTime, kindSeq, kindEnd, kindLabel, kindGroup, kindTarget, kindSensor, kindValue}

// columnKinds are all kinds.
var columnKinds = append(slices.Clone(singleKinds), kindChannel, kindIgnored)

// field returns the option for a kind.
func (t *Table) field(kind string) *string {
	return map[string]*string{kindStream: &t.Stream, kindTime: &t.Time, kindSeq: &t.Seq, kindEnd: &t.End, kindLabel: &t.Label,
		kindGroup: &t.Group, kindTarget: &t.Target, kindSensor: &t.Sensor, kindValue: &t.Value}[kind]
}

// column returns the column that the options name for a kind; "": none.
func (t *Table) column(kind string) string {
	name := *t.field(kind)
	if kind == kindLabel && strings.Contains(name, "(") || kind == kindTarget && t.counts() {
		return ""
	}
	return name
}

// counts reports whether the target is counted to the end of each stream.
func (t *Table) counts() bool { return t.Target == Remaining || t.Target == RemainingTime }

// Override replaces fields of t by the fields of o that are set.
func (t *Table) Override(o Table) {
	for _, kind := range singleKinds {
		*t.field(kind) = cmp.Or(*o.field(kind), *t.field(kind))
	}
	for _, pair := range [][2]*string{{&t.Delimiter, &o.Delimiter}, {&t.Decimal, &o.Decimal}, {&t.Header, &o.Header}, {&t.Files, &o.Files},
		{&t.Rows, &o.Rows}, {&t.TimeUnit, &o.TimeUnit}, {&t.Dates, &o.Dates}, {&t.Zone, &o.Zone}, {&t.Every, &o.Every}, {&t.Channels, &o.Channels}, {&t.Ignore, &o.Ignore}, {&t.Runs, &o.Runs},
		{&t.Samples, &o.Samples}} {
		*pair[0] = cmp.Or(*pair[1], *pair[0])
	}
	if len(o.Names) > 0 {
		t.Names = o.Names
	}
	if len(o.Classes) > 0 {
		t.Classes = o.Classes
	}
	t.Cap = cmp.Or(o.Cap, t.Cap)
	t.Transpose, t.Ends = t.Transpose || o.Transpose, t.Ends || o.Ends
}

// Check refuses invalid options.
func (t *Table) Check() error {
	for _, c := range []struct {
		name, value string
		want        []string
	}{
		{"delimiter", t.Delimiter, Delimiters}, {"decimal", t.Decimal, []string{".", ","}}, {"header", t.Header, []string{"yes", "no"}},
		{"files", t.Files, []string{FilesStreams, FilesSensors}}, {"rows", t.Rows, []string{RowsSamples, RowsRuns}}, {"time-unit", t.TimeUnit, timeunit.Names}, {"dates", t.Dates, []string{DayFirst, MonthFirst}},
	} {
		if c.value != "" && !slices.Contains(c.want, c.value) {
			return fmt.Errorf("%s %q: want one of %s", c.name, c.value, strings.Join(c.want, ", "))
		}
	}
	for _, c := range t.Columns {
		if c.Name == "" || !slices.Contains(columnKinds, c.Kind) {
			return fmt.Errorf("columns: name %q, kind %q: want a name, and a kind of %s", c.Name, c.Kind, strings.Join(columnKinds, ", "))
		}
	}
	if !(t.Cap >= 0) {
		return fmt.Errorf("cap %v: want a positive number", t.Cap)
	}
	if _, err := t.interval(); err != nil {
		return err
	}
	if t.Zone != "" {
		if _, err := parseZone(t.Zone); err != nil {
			return err
		}
	}
	if _, err := t.sampleRange(); err != nil {
		return err
	}
	if (t.Sensor == "") != (t.Value == "") {
		return fmt.Errorf("sensor %q, value %q: want both columns, or none", t.Sensor, t.Value)
	}
	_, err := t.labelRule()
	return err
}

// interval returns Every; 0: none.
func (t *Table) interval() (time.Duration, error) {
	if t.Every == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(t.Every)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("every %q: want an interval such as 3m, 1s or 100us", names.Cut(t.Every, 40))
	}
	return d, nil
}

// numberRange is a range of numbers from 1, with both ends.
type numberRange struct{ from, to int64 }

// sampleRange returns the range of Samples.
func (t *Table) sampleRange() (numberRange, error) {
	all := numberRange{1, math.MaxInt64}
	if t.Samples == "" {
		return all, nil
	}
	from, to, ok := strings.Cut(t.Samples, "..")
	for _, end := range []struct {
		text string
		n    *int64
	}{{from, &all.from}, {to, &all.to}} {
		if end.text != "" && ok {
			n, err := strconv.ParseInt(end.text, 10, 64)
			*end.n, ok = n, err == nil
		}
	}
	if !ok || from+to == "" || all.from < 1 || all.from > all.to {
		return all, fmt.Errorf("samples %q: want a range such as 401.. or 1..400", names.Cut(t.Samples, 40))
	}
	return all, nil
}

// labelRule returns the rule for the label of a stream; nil: none.
func (t *Table) labelRule() (*regexp.Regexp, error) {
	if !strings.Contains(t.Label, "(") {
		return nil, nil
	}
	rule, err := regexp.Compile(t.Label)
	if err == nil && rule.NumSubexp() != 1 {
		err = fmt.Errorf("want one group in parentheses")
	}
	if err != nil {
		return nil, fmt.Errorf("label %q: %w", names.Cut(t.Label, 40), err)
	}
	return rule, nil
}

// rangeOfNames matches s1..s21.
var rangeOfNames = regexp.MustCompile(`^(.*?)(\d{1,5})\.\.(.*?)(\d{1,5})$`)

// ExpandNames parses a list of names separated by commas, such as unit,cycle,s1..s21.
func ExpandNames(list string) (all []string, err error) {
	if list == "" {
		return nil, nil
	}
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		m := rangeOfNames.FindStringSubmatch(name)
		if m == nil {
			all = append(all, name)
			continue
		}
		from, _ := strconv.Atoi(m[2])
		to, _ := strconv.Atoi(m[4])
		if m[1] != m[3] || from > to {
			return nil, fmt.Errorf("columns %q: want a range such as s1..s21", name)
		}
		for n := from; n <= to; n++ {
			all = append(all, fmt.Sprintf("%s%0*d", m[1], len(m[2]), n))
		}
	}
	return all, names.CheckAll("column", all)
}
